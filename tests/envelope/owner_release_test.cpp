// SPDX-License-Identifier: Apache-2.0
// Owners of launches are released between replies, in time and without driver calls on that thread.
#include "runtime/core/runtime_core.hpp"
#include "tests/envelope/launches.hpp"
#include "tests/support/forwarding_device.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace sluice;
using namespace sluice::test;

class owner_release : public service_test {};

// Behind a gate all launches become ready at once, so no pass of the completion thread is idle.
TEST_P(owner_release, keeps_the_backlog_below_its_bound_while_replies_are_due) {
  constexpr std::size_t launches = 20'000;
  constexpr std::size_t allowance = 1024;
  struct observed {
    std::atomic<std::size_t> replies{0};
    std::atomic<std::size_t> excess{0};  // the backlog above twice the launches in flight
  };
  class observing final : public continuation {
   public:
    observing(device_service& service, observed& observation)
        : service_(service), observation_(observation) {}
    std::shared_ptr<launch_reply> complete(const error*) noexcept override {
      const auto backlog = detail::runtime_core::of(service_.runtime())->releases().size();
      const auto flying = 2 * service_.engine().pending();
      if (backlog > flying)
        observation_.excess = std::max(observation_.excess.load(), backlog - flying);
      ++observation_.replies;
      return nullptr;
    }

   private:
    device_service& service_;
    observed& observation_;
  };
  observed observation;
  const auto stream = test_lane().stream();
  gate closed;
  closed.hold(stream);
  for (std::size_t i = 0; i < launches; ++i) {
    detail::timeline::of(stream)->reserve();
    const auto ticket = detail::timeline::of(stream)->submit();
    service_->engine().submit(stream, ticket, std::make_unique<observing>(*service_, observation));
  }
  closed.open();
  await([&] { return observation.replies == launches; });
  EXPECT_LE(observation.excess, allowance);
}

// The bound also holds if each launch leaves more blocks than the thread releases at a time.
TEST_P(owner_release, bounds_the_backlog_of_launches_with_many_blocks) {
  constexpr std::size_t launches = 100;
  constexpr std::size_t blocks = 100;
  std::atomic<std::size_t> largest{0};
  std::atomic<std::size_t> replies{0};
  open_service({}, {.max_in_flight = launches + 1});
  gate closed;
  closed.hold(test_lane().stream());
  for (std::size_t i = 0; i < launches; ++i) {
    operands uses;
    for (std::size_t b = 0; b < blocks; ++b) {
      uses.add({allocate(1).block(), access_kind::write, true});
    }
    auto& core = *detail::runtime_core::of(runtime());
    const auto answered = [&](std::size_t) {
      largest = std::max(largest.load(), core.releases().size());
      ++replies;
    };
    run_kernel(test_lane(), std::move(uses),
               reply_token<std::size_t>::from(answered, [](const error&) {}), i,
               [](const launch_context&) {});
  }
  closed.open();
  await([&] { return replies == launches; });
  EXPECT_LE(largest, 2 * launches + 1024);
}

// The owner of a launch may itself hold the last references to many blocks.
TEST_P(owner_release, bounds_the_backlog_of_owners_that_hold_blocks) {
  constexpr std::size_t launches = 1000;
  constexpr std::size_t blocks = 50;
  std::atomic<std::size_t> excess{0};
  std::atomic<std::size_t> replies{0};
  open_service({}, {.max_in_flight = launches + 1, .max_commands = launches + 1});
  gate closed;
  closed.hold(test_lane().stream());
  for (std::size_t i = 0; i < launches; ++i) {
    auto held = std::make_shared<std::vector<words>>();
    for (std::size_t b = 0; b < blocks; ++b) held->push_back(allocate(1));
    operands uses;
    uses.keep(std::move(held));
    auto& core = *detail::runtime_core::of(runtime());
    const auto answered = [&](std::size_t) {
      const auto backlog = core.releases().size();
      const auto flying = 2 * service_->engine().pending();
      if (backlog > flying) excess = std::max(excess.load(), backlog - flying);
      ++replies;
    };
    run_kernel(test_lane(), std::move(uses),
               reply_token<std::size_t>::from(answered, [](const error&) {}), i,
               [](const launch_context&) {});
  }
  closed.open();
  await([&] { return replies == launches; });
  EXPECT_LE(excess, 1024 + blocks);
}

// When the reply arrives, the client holds the only references to its memory.
TEST_P(owner_release, drops_the_operands_before_the_reply) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<std::size_t> references{0};
    std::atomic<bool> answered{false};
    {
      auto in = allocate();
      auto out = allocate();
      auto uses = access_all(runtime(), read(in, "in"), write(out, "out"));
      const auto copy = copying(out, in);
      fill(in, 3);
      settle(*service_);
      in = {};
      auto token = reply_token<words>::from(
          [&](const words&) {
            references = runtime().statistics().references;
            answered = true;
          },
          [](const error&) {});
      run_kernel(test_lane(), std::move(uses), std::move(token), std::exchange(out, {}), copy);
    }
    await([&] { return answered.load(); });
    EXPECT_EQ(references, 1u) << "the reply's own";
  }
}

// The receiver of a reply may hold the last reference to the answer.
TEST_P(owner_release, counts_a_launch_as_pending_until_its_receiver_is_destroyed) {
  class watched final : public reply_token<int>::receiver {
   public:
    watched(completion_engine& engine, std::atomic<std::size_t>& observation)
        : engine_(engine), pending_at_end_(observation) {}
    ~watched() override { pending_at_end_ = engine_.pending(); }
    void succeed(int) noexcept override {}
    void fail(const error&) noexcept override {}

   private:
    completion_engine& engine_;
    std::atomic<std::size_t>& pending_at_end_;
  };
  constexpr std::size_t alive = 99;
  std::atomic<std::size_t> pending_at_end{alive};
  gate closed;
  closed.hold(test_lane().stream());
  run_kernel(test_lane(), operands(),
             reply_token<int>::make<watched>(service_->engine(), pending_at_end), 1,
             [](const launch_context&) {});
  EXPECT_EQ(pending_at_end, alive);
  closed.open();
  await([&] { return pending_at_end != alive; });
  EXPECT_EQ(pending_at_end, 1u);
}

INSTANTIATE_TEST_SUITE_P(devices, owner_release,
                         testing::Combine(every_device(), asynchronous_strategies()),
                         name_of_where);

/// Records the threads that return memory to the device.
class watching_device final : public forwarding_device {
 public:
  explicit watching_device(std::shared_ptr<device> real) : forwarding_device({}, std::move(real)) {}
  void deallocate_async(void* address, native_stream* s) noexcept override {
    note();
    forwarding_device::deallocate_async(address, s);
  }
  void deallocate(void* address) noexcept override {
    note();
    forwarding_device::deallocate(address);
  }
  [[nodiscard]] bool freed_on(std::thread::id thread) const {
    const std::lock_guard lock(mutex_);
    return threads_.contains(thread);
  }
  [[nodiscard]] std::size_t frees() const noexcept { return frees_; }

 private:
  void note() noexcept {
    const std::lock_guard lock(mutex_);
    threads_.insert(std::this_thread::get_id());
    ++frees_;
  }

  mutable std::mutex mutex_;
  std::set<std::thread::id> threads_;
  std::atomic<std::size_t> frees_{0};
};

// A completion thread drains only the release list of its own runtime.
TEST(owner_release_on_the_host, frees_blocks_of_other_runtimes_at_once) {
  device_runtime other(open_host_device());
  const auto stream = other.create_stream();
  const auto service = std::make_shared<device_service>("host");
  lane test_lane(service);
  auto block = other.allocate<std::uint32_t>(64, stream, "kept");
  auto token = reply_token<int>::from([block = std::move(block)](int) {}, [](const error&) {});
  run_kernel(test_lane, operands(), std::exchange(token, {}), 1, [](const launch_context&) {});
  await([&] { return other.statistics().blocks == 0; });
  EXPECT_EQ(other.statistics().releases_pending, 0u);
}

TEST(owner_release_on_the_host, makes_no_driver_call_on_the_completion_thread) {
  using maker = std::unique_ptr<memory_resource> (*)();
  const maker stacks[] = {
      +[] { return make_async_resource(); },
      +[] { return make_direct_resource({.tracked = true}); },
      // The pool keeps one block, so the next free returns memory to the device.
      +[] { return make_pool_resource(make_async_resource(), {.max_kept = 256}); },
  };
  for (const auto make : stacks) {
    const auto device = std::make_shared<watching_device>(open_host_device());
    constexpr std::size_t launches = 200;
    std::thread::id completing;
    {
      auto service = std::make_shared<device_service>(
          device, device_service_options{.runtime = {.resource = make()}});
      lane test_lane(service, {.max_in_flight = launches + 1});
      std::atomic<std::size_t> replies{0};
      {
        gate closed;
        closed.hold(test_lane.stream());
        for (std::size_t i = 0; i < launches; ++i) {
          auto in = service->runtime().allocate<std::uint32_t>(64, test_lane.stream(), "in");
          auto out = service->runtime().allocate<std::uint32_t>(64, test_lane.stream(), "out");
          auto uses = access_all(service->runtime(), read(in, "in"), write(out, "out"));
          const auto copy = copying(out, in);
          in = {};
          auto token = reply_token<words>::from(
              [&](const words&) {
                completing =
                    std::this_thread::get_id();  // the output's last reference is dropped here
                ++replies;
              },
              [](const error&) {});
          run_kernel(test_lane, std::move(uses), std::move(token), std::exchange(out, {}), copy);
        }
      }
      await([&] { return replies == launches; });
      settle(*service);
      EXPECT_EQ(service->runtime().statistics().blocks, 0u);
      EXPECT_FALSE(device->freed_on(completing));
    }
    EXPECT_EQ(device->frees(), 2 * launches);
  }
}

}  // namespace
