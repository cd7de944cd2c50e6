// SPDX-License-Identifier: Apache-2.0
// The guard's fills, its quarantine, and the return of memory from it.
#include "tests/runtime/memory/memory_guard_test.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/use_state.hpp"

#include <sluice/runtime/copy.hpp>
#include <sluice/runtime/memory_adaptor.hpp>
#include <sluice/runtime/memory_budget.hpp>
#include <sluice/runtime/memory_log.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

TEST_P(guard_on, fills_new_memory_with_no_numbers) {
  gate closed;
  closed.hold(stream());
  const auto fresh = runtime().allocate<float>(3000, stream());
  const auto read = runtime().allocate<float>(fresh.size(), other());
  (void)enqueue_copy(read, other(), fresh);
  closed.open();
  for (const auto value : download(read, other())) ASSERT_NE(value, value);
}

TEST_P(guard_on, overwrites_freed_memory) {
  auto block = allocate(1000);
  const auto* address = block.address();
  (void)write(block, 0, 1000, stream());
  free_and_await_quarantine(std::move(block));
  std::vector<std::uint8_t> read(1000);
  stream().device().copy(read.data(), address, read.size(), copy_direction::device_to_host,
                         stream().native());
  stream().synchronize();
  EXPECT_EQ(read, std::vector<std::uint8_t>(1000, 0xDF));
}

TEST_P(guard_on, checks_behind_the_last_use_and_holds_nobody_up) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("it waits where a gate is closed");
  gate closed;
  auto block = allocate(1000, "late");
  closed.hold(other());
  (void)write(block, 1000, 3, other());
  block = {};  // returns, although the write has not run
  const auto waiting = blocks_below();
  // Other work, trims and checks are not delayed.
  for (int i = 0; i < 20; ++i) {
    auto b = allocate(500);
    (void)write(b, 0, 500, stream());
    b = {};
    if (i % 5 == 0) (void)runtime().trim_memory();
  }
  await([&] {
    (void)runtime().trim_memory();
    return counters().checked == 20;
  });
  EXPECT_EQ(blocks_below(), waiting);
  EXPECT_TRUE(take_reports().empty());
  closed.open();
  const auto found = await_report();
  EXPECT_EQ(found.finding, guard_finding::overrun);
  EXPECT_EQ(found.block.tag.name(), "late");
  // The block was freed before a trim, so the quarantine does not keep it.
  await([&] { return counters().checked == 21; });
  EXPECT_EQ(blocks_below(), 0u);
}

TEST_P(guard_on, keeps_what_fits_its_quarantine_the_oldest_goes_first) {
  const auto log = std::make_shared<memory_log>();
  open(open_device(GetParam()), make_logging_resource(make_async_resource(), log),
       {.quarantine_blocks = 2});
  std::vector<const void*> freed;
  for (int i = 0; i < 5; ++i) {
    auto block = allocate(static_cast<std::size_t>(100 + i), "in a row");
    freed.push_back(static_cast<const std::byte*>(block.address()) - zone);
    free_and_await_quarantine(std::move(block));
    await([&, left = i < 2 ? 0U : static_cast<unsigned>(i) - 1U] {
      return counters().checked == left;
    });
    EXPECT_EQ(blocks_below(), std::min<std::size_t>(2, static_cast<std::size_t>(i) + 1));
  }
  EXPECT_GE(runtime().trim_memory(), 2 * (100 + 2 * zone));
  EXPECT_EQ(blocks_below(), 0u);
  std::vector<const void*> given_back;
  for (const auto& record : log->snapshot()) {
    if (record.event == memory_event::free) given_back.push_back(record.address);
  }
  EXPECT_EQ(given_back, freed);

  open({.quarantine_bytes = 10'000});
  free_and_await_quarantine(allocate(4000));
  free_and_await_quarantine(allocate(4000));
  EXPECT_EQ(blocks_below(), 2u);
  free_and_await_quarantine(allocate(20'000));  // larger than the whole quarantine
  await([&] { return counters().checked == 1; });
  EXPECT_EQ(blocks_below(), 2u);
  free_and_await_quarantine(allocate(3000));
  await([&] { return counters().checked == 2; });
  EXPECT_EQ(blocks_below(), 2u);
}

TEST_P(guard_on, gives_back_what_it_keeps_where_memory_is_short) {
  for (int i = 0; i < 5; ++i) free_and_await_quarantine(allocate(1000));
  EXPECT_EQ(blocks_below(), 5u);
  faults().fail_nth(1);
  const auto block = allocate(1000);
  EXPECT_EQ(blocks_below(), 1u);
  faults().fail_nth(1, 2);
  EXPECT_TRUE(throws(errc::out_of_memory, "scripted", [&] { (void)allocate(1000); }));
  EXPECT_EQ(blocks_below(), 1u);
}

TEST_P(guard_on, counts_its_zones_in_what_a_request_takes) {
  const auto budget = std::make_shared<memory_budget>();
  open(open_device(GetParam()), make_budget_resource(make_async_resource(), budget), {});
  budget->set_limit(2 * (1024 + 2 * zone));
  const std::size_t sizes[] = {1024, 1024};
  {
    auto reserved = runtime().reserve_memory(sizes);
    EXPECT_EQ(reserved.left(), budget->limit());
    const auto a = runtime().allocate_bytes(1024, stream(), "a", reserved);
    const auto b = runtime().allocate_bytes(1024, stream(), "b", reserved);
    EXPECT_EQ(reserved.left(), 0u);
    EXPECT_EQ(budget->snapshot().held, budget->limit());
  }
  const std::size_t more[] = {1024, 1025};
  EXPECT_TRUE(throws(errc::over_budget, "", [&] { (void)runtime().reserve_memory(more); }));
}

TEST_P(guard_on, has_checked_everything_when_the_runtime_ends) {
  for (const bool explicit_waits : {explicit_waits_by_default(), true}) {
    open(open_device(GetParam()), make_pool_resource(make_direct_resource({.tracked = true})), {},
         {.explicit_waits = explicit_waits});
    std::vector<block_ref> kept;
    for (int i = 0; i < 50; ++i) {
      kept.push_back(allocate(static_cast<std::size_t>(1 + i * 100), "kept"));
      (void)write(kept.back(), i == 30 ? 1 : 0, kept.back().bytes(),
                  i % 2 == 0 ? stream() : other());
      if (i % 3 == 0) kept.erase(kept.begin());
    }
    close();
    EXPECT_EQ(counters().checked, 50u);
    EXPECT_EQ(counters().unchecked, 0u);
    EXPECT_EQ(await_report().offset, 30 * 100 + 1);
  }
}

// A resource that is being destroyed must not pass work to the reclaim thread.
TEST_P(guard_on, has_given_everything_back_when_the_resources_go) {
  class watched final : public memory_adaptor {
   public:
    watched(std::unique_ptr<memory_resource> under, std::function<void()> going)
        : memory_adaptor(std::move(under), "watched"), going_(std::move(going)) {}
    ~watched() override { going_(); }
    std::string_view name() const noexcept override { return "watched"; }

   private:
    std::function<void()> going_;
  };
  for (const bool explicit_waits : {explicit_waits_by_default(), true}) {
    const auto bottom = std::make_shared<memory_statistics>();
    std::size_t left = 1;
    {
      device_runtime watching(open_device(GetParam()),
                              {.resource = std::make_unique<watched>(
                                   make_guard_resource(make_pool_resource(make_statistics_resource(
                                       make_direct_resource({.tracked = true}), bottom))),
                                   [&] { left = bottom->counters().allocations.current; }),
                               .explicit_waits = explicit_waits});
      const auto stream = watching.create_stream();
      for (int i = 0; i < 20; ++i) (void)watching.allocate_bytes(1000, stream);
    }
    EXPECT_EQ(left, 0u);
    EXPECT_GT(bottom->counters().allocations.total, 0u);
  }
}

// Over a resource that grants unfinished uses, the fill is ordered after them.
TEST_P(guard_on, fills_behind_earlier_uses_of_the_memory) {
  /// Grants one piece of memory, with a use on a stream that the test chooses.
  class used_memory final : public memory_resource {
   public:
    explicit used_memory(timeline_point& use) : use_(use) {}
    ~used_memory() override { context_->device().deallocate(memory_); }
    void bind(resource_context& context) override {
      context_ = &context;
      memory_ = context.device().allocate(4096);
    }
    granted_memory allocate(const allocation_request& request) override {
      granted_memory granted{.memory = {memory_, 4096, request.tag, request.generation}};
      granted.inherited.push_back(use_);
      return granted;
    }
    void deallocate(allocation, stream_ref, std::span<const timeline_point>) noexcept override {}
    bool supports_use_tracking() const noexcept override { return true; }
    std::string_view name() const noexcept override { return "used"; }
    [[nodiscard]] std::byte* address() const { return static_cast<std::byte*>(memory_); }

   private:
    timeline_point& use_;
    resource_context* context_ = nullptr;
    void* memory_ = nullptr;
  };
  timeline_point use;
  auto upstream = std::make_unique<used_memory>(use);
  auto* memory = upstream.get();
  open(open_device(GetParam()), std::move(upstream), {});
  gate closed;
  closed.hold(other());
  scribble(memory->address(), 4096, other());
  auto* used_on = detail::timeline::of(other());
  used_on->reserve();
  use = {used_on->id(), used_on->submit()};
  auto block = allocate(1000);
  EXPECT_EQ(uses_of(block).all,
            std::vector<timeline_point>{detail::timeline::of(stream())->newest()});
  closed.open();
  block = {};
  close();
  EXPECT_EQ(counters().checked, 1u);
}

}  // namespace
}  // namespace sluice::test
