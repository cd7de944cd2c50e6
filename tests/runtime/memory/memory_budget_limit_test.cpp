// SPDX-License-Identifier: Apache-2.0
// A device never holds more than the limit, even if unfinished work delays frees.
#include "tests/runtime/memory/memory_budget_test.hpp"
#include "tests/runtime/memory/room_wait_limit.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/forwarding_device.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/small_launches.hpp"

#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/launch_recorder.hpp>
#include <sluice/runtime/memory_guard.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// A host device that also counts directly allocated memory.
class counting_device final : public forwarding_device {
 public:
  counting_device() : forwarding_device({device_kind::host, 0}, open_host_device()) {}
  [[nodiscard]] std::size_t held() noexcept { return pool_bytes() + direct_; }

  void* allocate(std::size_t bytes) override {
    void* const address = forwarding_device::allocate(bytes);
    const std::lock_guard lock(mutex_);
    sizes_[address] = bytes;
    direct_ += bytes;
    return address;
  }
  void deallocate(void* address) noexcept override {
    {
      // Before another thread can receive this address.
      const std::lock_guard lock(mutex_);
      direct_ -= sizes_.extract(address).mapped();
    }
    forwarding_device::deallocate(address);
  }

 protected:
  void on_loss() noexcept override { real().lose(loss()); }  // makes the host device quiescent

 private:
  std::mutex mutex_;
  std::unordered_map<void*, std::size_t> sizes_;
  std::atomic<std::size_t> direct_{0};
};

using bytes_ref = gpu_ref<std::uint8_t>;
using resource_maker = std::function<std::unique_ptr<memory_resource>()>;
struct stack {
  std::string name;
  resource_maker make;  // the resource below the budget
};

std::vector<stack> stacks() {
  return {
      {"pool_async",
       [] {
         return make_pool_resource(make_async_resource());
       }},
      {"async",
       [] {
         return make_async_resource();
       }},
      {"direct",
       [] {
         return make_direct_resource({.tracked = true});
       }},
      {"pool_direct",
       [] {
         return make_pool_resource(make_direct_resource({.tracked = true}));
       }},
      {"guard",
       [] {
         return make_guard_resource(make_pool_resource(make_async_resource()));
       }},
  };
}

/// A runtime with a budget over each kind of resource, on the host device.
class limited : public ::testing::TestWithParam<stack> {
 protected:
  void SetUp() override {
    runtime_ = make_runtime();
    lane_ = runtime_->create_stream();
    other_ = runtime_->create_stream();
  }
  void TearDown() override { end(); }
  void end() {
    lane_ = {};
    other_ = {};
    runtime_.reset();
    EXPECT_EQ(budget_->snapshot().held, 0u);
    EXPECT_EQ(budget_->snapshot().reserved, 0u);
    if (!device_->lost()) {
      EXPECT_EQ(device_->held(), 0u) << "freed, and not back at the system";
    }
  }
  [[nodiscard]] std::unique_ptr<device_runtime> make_runtime() const {
    return std::make_unique<device_runtime>(
        device_, runtime_options{.resource = make_budget_resource(GetParam().make(), budget_)});
  }
  [[nodiscard]] bytes_ref allocate(std::size_t bytes) {
    auto block = runtime_->allocate<std::uint8_t>(bytes, lane_, "limited");
    EXPECT_LE(device_->held(), budget_->limit());
    return block;
  }
  /// Makes a launch on `stream` that reads the block.
  static void use(const bytes_ref& block, stream_ref stream) {
    auto recorder = begin_read(block, stream);
    (void)recorder.commit();
  }

  std::shared_ptr<counting_device> device_ = std::make_shared<counting_device>();
  room_wait_limit no_wait_{std::chrono::milliseconds(0)};
  std::shared_ptr<memory_budget> budget_ = std::make_shared<memory_budget>();
  std::unique_ptr<device_runtime> runtime_;
  stream lane_;
  stream other_;
};
INSTANTIATE_TEST_SUITE_P(stacks, limited, ::testing::ValuesIn(stacks()),
                         [](const auto& tested) { return tested.param.name; });

void PrintTo(const stack& s, std::ostream* out) {
  *out << s.name;
}

constexpr std::size_t unit = std::size_t{1} << 20;

// The blocks have different sizes, and each is freed while a launch that has not run reads it.
TEST_P(limited, charges_memory_until_the_work_that_uses_it_has_ended) {
  budget_->set_limit(24 * unit);
  gate closed;
  closed.hold(other_);
  int granted = 0;
  int refused = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    try {
      const auto block = allocate((20 - 2 * i) * unit);
      use(block, other_);
      ++granted;
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::over_budget);
      const std::string why = e.what();
      EXPECT_NE(why.find(" have been freed and await release"), std::string::npos) << why;
      EXPECT_EQ(why.find("of which 0 "), std::string::npos) << why;
      ++refused;
    }
  }
  EXPECT_EQ(granted, 1);
  EXPECT_EQ(refused, 7);
  EXPECT_GE(budget_->snapshot().kept, 20 * unit);
  closed.open();
  rest(other_);
  EXPECT_NO_THROW((void)allocate(10 * unit));
}

// A request at the limit is refused at once, because only the caller can wait for the work.
TEST_P(limited, gives_back_what_has_ended_and_keeps_what_has_not) {
  budget_->set_limit(24 * unit);
  gate closed;
  {
    const auto busy = allocate(8 * unit);
    const auto ended = allocate(10 * unit);
    use(ended, lane_);
    lane_.synchronize();
    closed.hold(other_);
    use(busy, other_);
  }
  EXPECT_NO_THROW((void)allocate(12 * unit)) << "the room of what has ended";
  EXPECT_TRUE(throws(errc::over_budget, "await release", [&] { (void)allocate(18 * unit); }));
  closed.open();
  rest(other_);
  rest(lane_);
  EXPECT_NO_THROW((void)allocate(18 * unit));
}

TEST_P(limited, is_free_again_when_the_runtime_ends_with_frees_that_wait) {
  budget_->set_limit(24 * unit);
  gate closed;
  closed.hold(other_);
  for (std::size_t i = 1; i < 4; ++i) use(allocate(i * unit), other_);
  EXPECT_GE(budget_->snapshot().kept, 6 * unit);
  std::thread opens([&] { closed.open(); });
  end();
  opens.join();
}

TEST_P(limited, is_free_again_when_the_device_is_lost_with_frees_that_wait) {
  budget_->set_limit(24 * unit);
  gate closed;
  closed.hold(other_);
  for (std::size_t i = 1; i < 4; ++i) use(allocate(i * unit), other_);
  const auto held = budget_->snapshot().held;
  device_->lose(error(errc::device_lost, "for this test"));
  EXPECT_EQ(budget_->snapshot().held, held) << "what a lost device holds is not to be had";
  closed.open();
  end();
}

TEST_P(limited, gives_nothing_up_for_what_cannot_be_met) {
  const auto second = make_runtime();
  const auto elsewhere = second->create_stream();
  const auto live = allocate(2 * unit);
  (void)allocate(4 * unit);
  (void)second->allocate_bytes(4 * unit, elsewhere);
  lane_.synchronize();
  elsewhere.synchronize();
  runtime_->reap_pending();
  second->reap_pending();
  // The reclaim thread frees independently of requests, so wait for it.
  if (GetParam().name == "direct") await([&] { return budget_->snapshot().kept == 0; });
  const auto kept = budget_->snapshot().kept;
  const auto held = device_->held();
  const auto absurd = std::size_t{1} << 60;
  EXPECT_TRUE(throws(errc::out_of_memory, "limited", [&] { (void)allocate(absurd); }));
  budget_->set_limit(32 * unit);
  EXPECT_TRUE(throws(errc::over_budget, "limited", [&] { (void)allocate(absurd); }));
  EXPECT_TRUE(throws(errc::over_budget, "limited", [&] { (void)allocate(31 * unit); }));
  EXPECT_TRUE(throws(errc::over_budget, "reservation", [&] {
    (void)runtime_->reserve_memory(std::vector<std::size_t>{16 * unit, 15 * unit});
  }));
  EXPECT_EQ(budget_->snapshot().kept, kept);
  EXPECT_EQ(device_->held(), held);
  // A request within the limit succeeds.
  EXPECT_NO_THROW((void)allocate(26 * unit));
  EXPECT_EQ(live.size(), 2 * unit);
}

TEST_P(limited, holds_against_threads_and_runtimes) {
  constexpr int threads = 4;
  budget_->set_limit(std::size_t{1} << 16);
  const auto seed = make_generator()();
  std::atomic<std::size_t> most{0};
  std::atomic<int> granted{0};
  std::atomic<int> refused{0};
  {
    const auto second = make_runtime();
    std::vector<std::thread> clients;
    for (int t = 0; t < threads; ++t) {
      clients.emplace_back([&, t] {
        auto& runtime = t % 2 == 0 ? *runtime_ : *second;
        std::mt19937_64 random(seed + static_cast<std::uint64_t>(t));
        const auto mine = runtime.create_stream();
        const auto readers = runtime.create_stream();
        std::vector<bytes_ref> blocks;
        for (int i = 0; i < 300; ++i) {
          try {
            // A size of a size class, so that the device rounds nothing up.
            const auto bytes = std::size_t{256} << random() % 7;
            blocks.push_back(runtime.allocate<std::uint8_t>(bytes, mine, "limited"));
            use(blocks.back(), random() % 2 == 0 ? mine : readers);
            ++granted;
          } catch (const error& e) {
            EXPECT_EQ(e.code(), errc::over_budget);
            ++refused;
            blocks.clear();
            mine.synchronize();
            readers.synchronize();
          }
          const auto held = device_->held();
          for (auto seen = most.load(); seen < held && !most.compare_exchange_weak(seen, held);) {
          }
          if (random() % 3 == 0) blocks.clear();
        }
      });
    }
    for (auto& client : clients) client.join();
  }
  EXPECT_GT(granted, 0);
  EXPECT_GT(refused, 0);
  EXPECT_LE(most, budget_->limit());
}

// A stream reuses memory that it still uses, without a wait.
TEST_P(budget_on, reuses_memory_on_the_same_stream_while_that_is_busy) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("for its sake no completed point stands for a wait");
  for (const bool pooled : {true, false}) {
    const auto tight = std::make_shared<memory_budget>(64 * unit);
    auto resource = make_async_resource();
    if (pooled) resource = make_pool_resource(std::move(resource));
    device_runtime tight_runtime(runtime().shared_device(),
                                 {.resource = make_budget_resource(std::move(resource), tight)});
    const auto lane = tight_runtime.create_stream();
    gate closed;
    closed.hold(lane);
    (void)tight_runtime.allocate_bytes(64 * unit, lane);
    const auto held = tight_runtime.device().pool_bytes();
    for (int i = 0; i < 10; ++i) {
      EXPECT_NO_THROW((void)tight_runtime.allocate_bytes(64 * unit, lane)) << pooled;
    }
    EXPECT_EQ(tight_runtime.device().pool_bytes(), held) << pooled;
    EXPECT_EQ(tight->snapshot().held, 64 * unit);
    EXPECT_TRUE(throws(errc::over_budget, "await release",
                       [&] { (void)tight_runtime.allocate_bytes(32 * unit, lane); }));
    closed.open();
    lane.synchronize();
    EXPECT_NO_THROW((void)tight_runtime.allocate_bytes(32 * unit, lane)) << pooled;
  }
}

// Neither a free nor a request at the limit waits for running work.
TEST_P(budget_on, makes_room_beside_work_that_does_not_end) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("cudaFree waits for all streams there");
  budget().set_limit(64 * unit);
  auto idle = allocate(48 * unit);
  stream().synchronize();
  const auto busy = runtime().create_stream();
  gate closed;
  closed.hold(busy);
  idle = {};
  EXPECT_NO_THROW((void)allocate(60 * unit));
  EXPECT_EQ(budget().snapshot().held, 60 * unit);
  EXPECT_LE(runtime().device().pool_bytes(), 64 * unit);
  closed.open();
}

// Memory of many sizes that the device's pool keeps does not accumulate in the charge.
TEST_P(budget_on, charges_no_more_than_the_devices_pool_holds) {
  const auto all = std::make_shared<memory_budget>();
  device_runtime charged_runtime(runtime().shared_device(),
                                 {.resource = make_budget_resource(make_async_resource(), all)});
  const auto lane = charged_runtime.create_stream();
  const auto others = charged_runtime.device().pool_bytes();
  auto random = make_generator();
  std::size_t largest = 0;
  for (int i = 0; i < 300; ++i) {
    const auto bytes = (1 + random() % 64) * 4096;
    largest = std::max(largest, bytes);
    (void)charged_runtime.allocate_bytes(bytes, lane);
    lane.synchronize();
    ASSERT_LE(all->snapshot().held, charged_runtime.device().pool_bytes() + largest);
  }
  (void)charged_runtime.trim_memory();
  EXPECT_EQ(all->snapshot().held, 0u);
  EXPECT_LE(charged_runtime.device().pool_bytes(), others);
}

TEST(memory_budget, is_as_before_where_the_device_refuses_memory_that_it_has_free) {
  const auto script = std::make_shared<fault_script>();
  const auto budget = std::make_shared<memory_budget>(4096);
  device_runtime runtime(open_host_device({.faults = script}),
                         {.resource = make_budget_resource(make_async_resource(), budget)});
  const auto lane = runtime.create_stream();
  gate closed;
  closed.hold(lane);
  (void)runtime.allocate_bytes(4096, lane);
  script->fail_nth(fault_target::allocation, 1, 2);
  EXPECT_TRUE(
      throws(errc::out_of_memory, "scripted", [&] { (void)runtime.allocate_bytes(4096, lane); }));
  EXPECT_EQ(budget->snapshot().held, 4096u);
  EXPECT_NO_THROW((void)runtime.allocate_bytes(4096, lane));
  EXPECT_EQ(budget->snapshot().held, 4096u);
  closed.open();
  lane.synchronize();
  (void)runtime.trim_memory();
  EXPECT_EQ(budget->snapshot().held, 0u);
}

}  // namespace
}  // namespace sluice::test
