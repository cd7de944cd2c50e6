// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/envelope/completion_strategies.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/gate.hpp"

#include <sluice/envelope/kernel_envelope.hpp>
#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::test {

/// The answer to one request: a value or an error.
template <class T>
struct reply {
  std::optional<T> value;
  std::optional<error> failure;
};

/// The destination of replies. Copies share it.
template <class T>
class mailbox {
 public:
  /// A token that delivers its answer here.
  [[nodiscard]] reply_token<T> token() const {
    return reply_token<T>::from(
        [s = state_](T value) {
          s->add({std::move(value), std::nullopt});
        },
        [s = state_](const error& why) {
          s->add({std::nullopt, why});
        });
  }

  [[nodiscard]] std::size_t count() const {
    const std::lock_guard lock(state_->mutex);
    return state_->replies.size();
  }
  /// Waits for `count` replies and returns the last one.
  reply<T> wait(std::size_t count = 1) const {
    std::unique_lock lock(state_->mutex);
    state_->arrived.wait(lock, [&] { return state_->replies.size() >= count; });
    return state_->replies[count - 1];
  }
  /// Waits for the first reply and returns its value. An error fails the test.
  T value() const {
    auto first = wait();
    if (first.failure) ADD_FAILURE() << "the reply is an error: " << first.failure->what();
    return first.value.value_or(T{});
  }
  /// Waits for the first reply and returns its error code, or nothing for a value.
  std::optional<errc> failure() const {
    const auto first = wait();
    return first.failure ? std::optional(first.failure->code()) : std::nullopt;
  }

 private:
  struct state {
    void add(reply<T> r) {
      {
        const std::lock_guard lock(mutex);
        replies.push_back(std::move(r));
      }
      arrived.notify_all();
    }
    std::mutex mutex;
    std::condition_variable arrived;
    std::vector<reply<T>> replies;
  };
  std::shared_ptr<state> state_ = std::make_shared<state>();
};

using words = gpu_ref<std::uint32_t>;

/// Waits until every launch of the service has been answered and its owners have been destroyed, on
/// any thread.
inline void settle(device_service& service) {
  while (service.engine().pending() != 0) std::this_thread::yield();
  do {
    service.runtime().reap_pending();
  } while (service.runtime().statistics().releases_pending != 0);
}

/// Expects that no launch has left bytes, blocks, leases, owners or unfinished recorders. The test
/// must have dropped its references before.
inline void expect_nothing_left(device_service& service) {
  settle(service);
  auto statistics = service.runtime().statistics();
  // After a loss, owners are released once their streams are quiescent.
  while (service.device().lost() && (statistics.blocks != 0 || statistics.releases_pending != 0)) {
    settle(service);
    statistics = service.runtime().statistics();
  }
  EXPECT_EQ(service.runtime().bytes_outstanding(), 0u);
  EXPECT_EQ(statistics.blocks, 0u);
  EXPECT_EQ(statistics.leases, 0u);
  EXPECT_EQ(statistics.releases_pending, 0u);
  EXPECT_EQ(statistics.recorders_abandoned, 0u);
  EXPECT_EQ(service.engine().pending(), 0u);
}

/// A closure that fills `out` on any device. It holds no reference, because the launch has owners.
inline auto filling(const words& out, std::uint32_t value) {
  return [address = out.data(), count = out.size(), value](const launch_context& context) {
    context.stream.device().fill(address, &value, sizeof value, count, context.native());
  };
}
/// A closure that copies `source` to `target` on any device.
inline auto copying(const words& target, const words& source) {
  return [target = target.data(), source = source.data(),
          bytes = target.bytes()](const launch_context& context) {
    context.stream.device().copy(target, source, bytes, copy_direction::device_to_device,
                                 context.native());
  };
}

/// Host memory to which the device copies without blocking the caller.
inline std::shared_ptr<std::uint32_t> staging(const std::shared_ptr<device>& device,
                                              std::size_t count) {
  auto* memory =
      static_cast<std::uint32_t*>(device->allocate_staging(count * sizeof(std::uint32_t)));
  for (std::size_t i = 0; i < count; ++i) memory[i] = 0;
  return {memory, [device](std::uint32_t* m) {
            device->deallocate_staging(m);
          }};
}

using service_place = std::tuple<std::string, completion_strategy>;

/// A service and a lane for each device and completion strategy. `TearDown` expects that nothing is
/// left.
class service_test : public testing::TestWithParam<service_place> {
 protected:
  void SetUp() override {
    const auto& [name, strategy] = GetParam();
    if (!has_device(name)) GTEST_SKIP() << "this machine has no device '" << name << "'";
    if (name == "host") {
      faults_ = std::make_shared<fault_script>();
      host_device_options options;
      options.faults = faults_;
      device_ = open_host_device(options);
    } else {
      device_ = open_device(name);
    }
    open_service();
  }
  void TearDown() override {
    if (!service_) return;
    lane_.reset();
    expect_nothing_left(*service_);
  }

  /// Opens a service with a lane on the fixture's device. It replaces the previous service and
  /// lane.
  void open_service(runtime_options options = {}, lane_options of_lane = {}) {
    lane_.reset();
    service_.reset();
    service_ = std::make_shared<device_service>(
        device_, device_service_options{std::move(options), std::get<1>(GetParam())});
    lane_ = std::make_unique<lane>(service_, of_lane);
  }

  [[nodiscard]] device_runtime& runtime() const { return service_->runtime(); }
  [[nodiscard]] lane& test_lane() const { return *lane_; }
  [[nodiscard]] words allocate(std::size_t count = 64) const {
    return runtime().allocate<std::uint32_t>(count, lane_->stream(), "test");
  }
  /// Fills `out` with one launch, and waits for its reply.
  void fill(const words& out, std::uint32_t value) const {
    mailbox<words> box;
    run_kernel(test_lane(), access_all(runtime(), write(out, "out")), box.token(), out,
               filling(out, value));
    EXPECT_EQ(box.failure(), std::nullopt);
  }
  void expect_filled(const words& ref, std::uint32_t value) const {
    EXPECT_EQ(download(ref, lane_->stream()), std::vector<std::uint32_t>(ref.size(), value));
  }

  std::shared_ptr<device> device_;
  std::shared_ptr<fault_script> faults_;  // only on the host
  std::shared_ptr<device_service> service_;
  std::unique_ptr<lane> lane_;
};

inline std::string name_of_where(const testing::TestParamInfo<service_place>& parameter) {
  return std::get<0>(parameter.param) + "_" + to_string(std::get<1>(parameter.param));
}

}  // namespace sluice::test
