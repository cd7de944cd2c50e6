// SPDX-License-Identifier: Apache-2.0
// Making room at the limit: from memory in pools, from owners of completed launches, and from frees
// of the reclaim thread.
#include "runtime/core/runtime_core.hpp"
#include "tests/runtime/memory/memory_budget_test.hpp"
#include "tests/support/gate.hpp"

#include <sluice/runtime/releasable.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <latch>
#include <memory>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

namespace sluice::test {
namespace {

TEST_P(budget_on, makes_room_of_what_pools_keep_in_every_runtime_on_it) {
  const auto other = make_runtime();
  const auto elsewhere = other->create_stream();
  budget().set_limit(10'240);
  auto here = allocate(4096);
  auto there = other->allocate_bytes(5120, elsewhere);
  here = {};
  there = {};
  stream().synchronize();
  elsewhere.synchronize();
  EXPECT_EQ(budget().snapshot().kept, 9216u);
  // No pool has a block of this size.
  const auto large = allocate(8192);
  EXPECT_EQ(budget().snapshot().held, 8192u);
  EXPECT_TRUE(throws(errc::over_budget, "4096 bytes",
                     [&] { (void)other->allocate_bytes(4096, elsewhere); }));
}

/// A block that a launch kept until it had completed.
struct kept_block final : releasable {
  explicit kept_block(block_ref b) : block(std::move(b)) {}
  block_ref block;
};

TEST_P(budget_on, drops_the_owners_of_completed_launches_before_it_gives_up) {
  budget().set_limit(4096);
  auto kept = std::make_unique<kept_block>(allocate(4096));
  detail::runtime_core::of(runtime())->releases().push(kept.release());
  stream().synchronize();
  EXPECT_EQ(allocate(2048).bytes(), 2048u);
}

TEST_P(budget_on, drops_the_owners_of_completed_launches_in_every_runtime_on_it) {
  const auto other = make_runtime();
  const auto elsewhere = other->create_stream();
  budget().set_limit(4096);
  auto kept = std::make_unique<kept_block>(other->allocate_bytes(4096, elsewhere));
  detail::runtime_core::of(*other)->releases().push(kept.release());
  elsewhere.synchronize();
  EXPECT_EQ(allocate(2048).bytes(), 2048u);
  EXPECT_EQ(other->statistics().releases_pending, 0u);
}

// Memory that the reclaim thread frees is available when it is needed.
TEST_P(budget_on, at_the_limit_what_has_been_freed_is_free) {
  const auto tight = std::make_shared<memory_budget>(4096);
  for (const bool with_pool : {false, true}) {
    auto direct = make_direct_resource({.tracked = true});
    if (with_pool) direct = make_pool_resource(std::move(direct));
    device_runtime reclaiming(runtime().shared_device(),
                              {.resource = make_budget_resource(std::move(direct), tight)});
    const auto lane = reclaiming.create_stream();
    for (std::size_t i = 0; i < 50; ++i) {
      ASSERT_NO_THROW((void)reclaiming.allocate_bytes(i % 2 == 0 ? 4096 : 2048, lane)) << i;
    }
  }
}

/// A resource at the bottom of the stack whose frees the reclaim thread calls. It reports calls
/// that break the rules.
class probe final : public memory_resource {
 public:
  struct seen {
    std::function<void()> when_bound = [] {
    };
    std::function<void()> when_freed = [] {
    };
    std::atomic<bool> gone{false};
    std::atomic<int> reclaimed{0};
    std::atomic<int> reclaimed_too_late{0};
  };
  explicit probe(seen& s) : seen_(s) {}
  ~probe() override { seen_.gone = true; }

  void bind(resource_context& context) override {
    seen_.when_bound();
    context_ = &context;
  }
  granted_memory allocate(const allocation_request& request) override {
    context_->charge(request.bytes, request);
    return {.memory = {context_->device().allocate(request.bytes), request.bytes, request.tag}};
  }
  void deallocate(allocation memory, stream_ref,
                  std::span<const timeline_point> unfinished) noexcept override {
    seen_.when_freed();
    context_->reclaim_after(
        unfinished, {memory.address, memory.bytes},
        [](void* held, allocation m) noexcept {
          const std::unique_ptr<owner> o(static_cast<owner*>(held));
          ++o->s.reclaimed;
          if (o->s.gone) {
            ++o->s.reclaimed_too_late;
            return;
          }
          o->context.device().deallocate(m.address);
          o->context.discharge(m);
        },
        new owner{seen_, *context_});
  }
  bool supports_use_tracking() const noexcept override { return true; }
  std::string_view name() const noexcept override { return "probe"; }

 private:
  struct owner {
    seen& s;
    resource_context& context;
  };
  seen& seen_;
  resource_context* context_ = nullptr;
};

/// Stops the first free until `go_on` is called.
class stopped_free {
 public:
  void pass() {
    if (!first_.exchange(false)) return;
    arrival_.count_down();
    go_on_.wait();
  }
  void await_asked() const { arrival_.wait(); }
  void go_on() { go_on_.count_down(); }

 private:
  std::latch arrival_{1};
  std::latch go_on_{1};
  std::atomic<bool> first_{true};
};

/// Requests all memory, part of which pools of other runtimes keep. The request may succeed or
/// fail.
void want_all(device_runtime& runtime, stream_ref stream, std::size_t bytes) {
  try {
    (void)runtime.allocate_bytes(bytes, stream);
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::over_budget);
  }
}

TEST_P(budget_on, does_not_ask_a_runtime_that_is_being_made) {
  budget().set_limit(4096);
  (void)allocate(256);  // the pool keeps it, so there is room to make
  stream().synchronize();
  probe::seen seen;
  seen.when_bound = [&] {
    std::thread([&] { EXPECT_NO_THROW((void)allocate(4096)); }).join();
  };
  device_runtime new_runtime(
      runtime().shared_device(),
      {.resource = make_budget_resource(make_pool_resource(std::make_unique<probe>(seen)),
                                        shared_budget())});
}

TEST_P(budget_on, can_be_looked_at_while_room_is_made) {
  budget().set_limit(4096);
  probe::seen seen;
  stopped_free stopped;
  device_runtime slow(runtime().shared_device(),
                      {.resource = make_budget_resource(
                           make_pool_resource(std::make_unique<probe>(seen)), shared_budget())});
  {
    const auto stream = slow.create_stream();
    (void)slow.allocate_bytes(256, stream);
  }
  seen.when_freed = [&] {
    stopped.pass();
  };
  std::thread asking([&] { want_all(runtime(), stream(), 4096); });
  stopped.await_asked();
  EXPECT_EQ(budget().snapshot().limit, 4096u);
  {
    // Creating and destroying a runtime meanwhile does not wait either.
    const auto other = make_runtime();
  }
  stopped.go_on();
  asking.join();
}

TEST_P(budget_on, does_not_ask_a_runtime_that_has_begun_to_end) {
  budget().set_limit(4096);
  probe::seen seen;
  stopped_free stopped;
  auto ending = std::make_unique<device_runtime>(
      runtime().shared_device(),
      runtime_options{.resource = make_budget_resource(
                          make_pool_resource(std::make_unique<probe>(seen)), shared_budget())});
  {
    const auto stream = ending->create_stream();
    const auto a = ending->allocate_bytes(256, stream);
    const auto b = ending->allocate_bytes(512, stream);
  }
  seen.when_freed = [&] {
    stopped.pass();
  };
  // One runtime's request is traversing the lists of the other one while that ends.
  std::thread asking([&] { want_all(runtime(), stream(), 4096); });
  stopped.await_asked();
  const auto core = detail::runtime_core::of(*ending);
  std::thread ends([&] { ending.reset(); });
  await([&] { return core->closing(); });
  let_others_run(1000);
  stopped.go_on();
  ends.join();
  asking.join();
  EXPECT_EQ(seen.reclaimed, 2);
  EXPECT_EQ(seen.reclaimed_too_late, 0);
}

}  // namespace
}  // namespace sluice::test
