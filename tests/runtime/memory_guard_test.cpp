// What the guard finds, and that it finds nothing else.
#include "runtime/memory/adaptor.hpp"
#include "tests/runtime/use_state.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/copy.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/memory_adaptors.hpp>
#include <sluice/runtime/memory_budget.hpp>
#include <sluice/runtime/memory_guard.hpp>
#include <sluice/runtime/memory_log.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

constexpr std::size_t zone = 256;

class guard_on : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_device(GetParam())) {
      GTEST_SKIP() << "this machine has no device '" << GetParam() << "'";
    }
    open({});
  }
  /// A runtime whose guard stands over `async`, with a failing and a counting adaptor between.
  void open(guard_options options, runtime_options others = {}) {
    open(open_device(GetParam()), make_async_resource(), std::move(options), std::move(others));
  }
  void open(std::shared_ptr<device> on, std::unique_ptr<memory_resource> upstream,
            guard_options options, runtime_options others = {}) {
    close();
    below_ = std::make_shared<memory_statistics>();
    faults_ = std::make_shared<fault_countdown>();
    counters_ = std::make_shared<guard_counters>();
    options.counters = counters_;
    if (!options.on_report) {
      options.on_report = [this](const guard_report& found) {
        const std::lock_guard lock(mutex_);
        reports_.push_back(found);
      };
    }
    others.resource = make_guard_resource(
        make_statistics_resource(make_failing_resource(std::move(upstream), faults_), below_),
        std::move(options));
    runtime_ = std::make_unique<device_runtime>(std::move(on), std::move(others));
    stream_ = runtime_->create_stream();
    other_ = runtime_->create_stream();
  }
  /// Ends the runtime; then everything has been checked.
  void close() {
    stream_ = {};
    other_ = {};
    const bool lost = runtime_ && runtime_->device().lost();
    runtime_.reset();
    if (below_ && !lost) {
      EXPECT_EQ(below_->counters().bytes.current, 0u) << "the guard kept memory";
    }
  }
  void TearDown() override {
    close();
    EXPECT_TRUE(take_reports().empty()) << "something was reported that no test asked for";
  }

  [[nodiscard]] device_runtime& runtime() const { return *runtime_; }
  [[nodiscard]] stream_ref stream() const { return stream_; }
  [[nodiscard]] stream_ref other() const { return other_; }
  [[nodiscard]] const guard_counters& counters() const { return *counters_; }
  [[nodiscard]] fault_countdown& faults() const { return *faults_; }
  [[nodiscard]] std::size_t held_below() const { return below_->counters().bytes.current; }
  [[nodiscard]] std::size_t blocks_below() const { return below_->counters().allocations.current; }

  [[nodiscard]] block_ref allocate(std::size_t bytes, allocation_tag tag = "guarded") const {
    return runtime().allocate_bytes(bytes, stream(), tag);
  }
  /// A recorded launch that writes `count` bytes from byte `offset` of `block`, wherever that is.
  timeline_point write(const block_ref& block, std::ptrdiff_t offset, std::size_t count,
                       stream_ref on, std::uint8_t value = 0x11) {
    auto recorder = launch_recorder::strict(on);
    recorder.use(block, access_kind::write, true);
    recorder.preflight();
    scribble(static_cast<std::byte*>(block.address()) + offset, count, on, value);
    return recorder.commit();
  }
  /// The same behind the runtime's back.
  static void scribble(std::byte* at, std::size_t count, stream_ref on, std::uint8_t value = 0x11) {
    on.device().fill(at, &value, 1, count, on.native());
  }
  /// Frees `block` and returns when the guard has looked at it and filled it.
  void free_and_await_quarantine(block_ref block) const {
    auto* reclaim = runtime().core()->reclaim_stream().timeline();
    const auto before = reclaim->newest().ticket;
    block = {};
    reclaim->wait_until(before + 1);
  }
  [[nodiscard]] std::vector<guard_report> take_reports() {
    const std::lock_guard lock(mutex_);
    return std::exchange(reports_, {});
  }
  /// The only report, once it is there.
  [[nodiscard]] guard_report await_report() {
    await([&] {
      const std::lock_guard lock(mutex_);
      return !reports_.empty();
    });
    const auto all = take_reports();
    EXPECT_EQ(all.size(), 1u);
    return all.front();
  }

 private:
  std::mutex mutex_;
  std::vector<guard_report> reports_;
  std::shared_ptr<memory_statistics> below_;
  std::shared_ptr<fault_countdown> faults_;
  std::shared_ptr<guard_counters> counters_;
  std::unique_ptr<device_runtime> runtime_;
  sluice::stream stream_;
  sluice::stream other_;
};
INSTANTIATE_TEST_SUITE_P(devices, guard_on, every_device(), parameter_name);

void expect_block(const allocation& found, const block_id& id, std::size_t bytes,
                  std::string_view tag) {
  EXPECT_EQ(found.address, id.address);
  EXPECT_EQ(found.bytes, bytes);
  EXPECT_EQ(found.generation, id.generation);
  EXPECT_EQ(found.tag.name(), tag);
}

TEST_P(guard_on, finds_an_overrun_and_names_its_block) {
  auto generator = make_generator();
  for (int round = 0; round < 20; ++round) {
    const std::size_t bytes = 1 + generator() % 5000;
    const auto first = generator() % zone;
    const auto count = 1 + generator() % (zone - first);
    auto block = allocate(bytes, "too short");
    const auto id = block.id();
    (void)write(block, static_cast<std::ptrdiff_t>(bytes + first), count, stream());
    block = {};
    const auto found = await_report();
    EXPECT_EQ(found.finding, guard_finding::overrun);
    EXPECT_EQ(found.offset, static_cast<std::ptrdiff_t>(bytes + first));
    EXPECT_EQ(found.damaged, count);
    EXPECT_FALSE(found.now_there);
    expect_block(found.block, id, bytes, "too short");
  }
}

TEST_P(guard_on, finds_an_underrun_and_names_its_block) {
  auto generator = make_generator();
  for (int round = 0; round < 20; ++round) {
    const auto before = static_cast<std::ptrdiff_t>(1 + generator() % zone);
    const auto count = 1 + generator() % static_cast<std::size_t>(before);
    auto block = allocate(1000, "too late");
    const auto id = block.id();
    (void)write(block, -before, count, stream());
    block = {};
    const auto found = await_report();
    EXPECT_EQ(found.finding, guard_finding::underrun);
    EXPECT_EQ(found.offset, -before);
    EXPECT_EQ(found.damaged, count);
    expect_block(found.block, id, 1000, "too late");
  }
}

TEST_P(guard_on, finds_both_and_a_single_byte) {
  open({.red_zone = 1024});
  auto block = allocate(77);
  (void)write(block, -1024, 1, stream());
  (void)write(block, 77 + 1023, 1, other());
  block = {};
  close();
  const auto found = take_reports();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].finding, guard_finding::underrun);
  EXPECT_EQ(found[0].offset, -1024);
  EXPECT_EQ(found[1].finding, guard_finding::overrun);
  EXPECT_EQ(found[1].offset, 77 + 1023);
}

TEST_P(guard_on, finds_a_write_after_the_free) {
  auto generator = make_generator();
  // Also in the zones, and beyond what is compared at a time.
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, std::size_t{5} << 19}) {
    const auto extent = bytes + 2 * zone;
    const auto first = generator() % extent;
    const auto count = 1 + generator() % (extent - first);
    const auto offset = static_cast<std::ptrdiff_t>(first) - static_cast<std::ptrdiff_t>(zone);
    auto block = allocate(bytes, "freed early");
    const auto id = block.id();
    auto* const address = static_cast<std::byte*>(block.address());
    (void)write(block, 0, bytes, stream());
    free_and_await_quarantine(std::move(block));
    scribble(address + offset, count, stream());
    stream().synchronize();
    EXPECT_GE(runtime().trim_memory(), bytes);
    const auto found = await_report();
    EXPECT_EQ(found.finding, guard_finding::write_after_free);
    EXPECT_EQ(found.offset, offset);
    EXPECT_EQ(found.damaged, count);
    expect_block(found.block, id, bytes, "freed early");
  }
}

TEST_P(guard_on, reports_a_double_free) {
  const auto block = allocate(100, "given back");
  runtime().deallocate(block);
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(throws(errc::stale_ref, "given back", [&] { runtime().deallocate(block); }));
    const auto found = await_report();
    EXPECT_EQ(found.finding, guard_finding::double_free);
    expect_block(found.block, block.id(), 100, "given back");
    EXPECT_FALSE(found.now_there);
    EXPECT_NE(to_string(found).find("memory 'given back' (100 bytes at 0x"), std::string::npos);
  }
}

TEST_P(guard_on, reports_a_stale_use_with_both_tags) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("for its sake no completed point counts as settled");
  open(open_device(GetParam()), make_pool_resource(make_async_resource()),
       {.quarantine_blocks = 0});
  auto first = allocate(1000, "first");
  const auto id = first.id();
  auto recorder = launch_recorder::strict(stream());
  recorder.use(first, access_kind::read, true);
  // The memory, but not the reference, goes on to another block.
  runtime().deallocate(first);
  await([&] { return counters().checked == 1; });
  auto second = allocate(1000, "second");
  ASSERT_EQ(second.address(), id.address);
  const auto expect = [&] {
    const auto found = await_report();
    EXPECT_EQ(found.finding, guard_finding::stale_use);
    expect_block(found.block, id, 1000, "first");
    ASSERT_TRUE(found.now_there);
    expect_block(*found.now_there, second.id(), 1000, "second");
    const auto line = to_string(found);
    EXPECT_NE(line.find("'first'"), std::string::npos) << line;
    EXPECT_NE(line.find("'second'"), std::string::npos) << line;
  };
  EXPECT_TRUE(throws(errc::stale_ref, "given back", [&] { recorder.preflight(); }));
  expect();
  EXPECT_TRUE(throws(errc::stale_ref, "first",
                     [&] { (void)runtime().prepare_use(first, stream(), access_kind::read); }));
  expect();
  EXPECT_TRUE(throws(errc::stale_ref, "first",
                     [&] { (void)runtime().record_use(first, stream(), access_kind::read); }));
  expect();
}

TEST_P(guard_on, names_no_block_that_it_has_forgotten) {
  open({.remembered = 1});
  const auto stale_use_after = [&](int frees) {
    auto block = allocate(64, "long ago");
    const auto generation = block.id().generation;
    auto recorder = launch_recorder::strict(stream());
    recorder.use(block, access_kind::read, true);
    block = {};
    for (int i = 0; i < frees; ++i) (void)allocate(64, "later");
    EXPECT_TRUE(throws(errc::stale_ref, "", [&] { recorder.preflight(); }));
    const auto found = await_report();
    EXPECT_EQ(found.block.generation, generation);
    return std::string(found.block.tag.name());
  };
  EXPECT_EQ(stale_use_after(0), "long ago");
  EXPECT_EQ(stale_use_after(1), "unknown");
}

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
  // Other work, trims and checks go on.
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
  // It was freed before a trim, and so is not held back now.
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
  free_and_await_quarantine(allocate(20'000));  // more than it may ever keep
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
  budget->set_limit(2 * (1000 + 2 * zone));
  const std::size_t sizes[] = {1000, 1000};
  {
    auto reserved = runtime().reserve_memory(sizes);
    EXPECT_EQ(reserved.left(), budget->limit());
    const auto a = runtime().allocate_bytes(1000, stream(), "a", reserved);
    const auto b = runtime().allocate_bytes(1000, stream(), "b", reserved);
    EXPECT_EQ(reserved.left(), 0u);
    EXPECT_EQ(budget->snapshot().held, budget->limit());
  }
  const std::size_t more[] = {1000, 1001};
  EXPECT_TRUE(throws(errc::over_budget, "", [&] { (void)runtime().reserve_memory(more); }));
}

TEST_P(guard_on, survives_what_its_reports_throw) {
  open({.on_report = [](const guard_report&) {
    throw std::runtime_error("no ears");
  }});
  auto block = allocate(10);
  (void)write(block, 10, 1, stream());
  runtime().deallocate(block);
  EXPECT_TRUE(throws(errc::stale_ref, "", [&] { runtime().deallocate(block); }));
  block = {};
  await([&] { return counters().reported == 2; });
  await([&] { return counters().lost_reports == 2; });
}

TEST_P(guard_on, reports_to_standard_error_unless_told_otherwise) {
  ::testing::internal::CaptureStderr();
  {
    device_runtime plain(open_device(GetParam()),
                         {.resource = make_guard_resource(make_async_resource())});
    const auto on = plain.create_stream();
    auto block = plain.allocate_bytes(48, on, "lonely");
    (void)write(block, 50, 4, on);
  }
  const auto said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("sluice: memory 'lonely' (48 bytes at 0x"), std::string::npos) << said;
  EXPECT_NE(said.find("behind its end: 4 bytes are damaged, the first at 50"), std::string::npos)
      << said;
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

// A resource that goes may not have anything done by the reclaim thread any more.
TEST_P(guard_on, has_given_everything_back_when_the_resources_go) {
  class watched final : public detail::memory_adaptor {
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
      const auto on = watching.create_stream();
      for (int i = 0; i < 20; ++i) (void)watching.allocate_bytes(1000, on);
    }
    EXPECT_EQ(left, 0u);
    EXPECT_GT(bottom->counters().allocations.total, 0u);
  }
}

TEST_P(guard_on, finds_nothing_in_clean_use) {
  for (const bool pooled : {false, true}) {
    open(open_device(GetParam()),
         pooled ? make_pool_resource(make_async_resource()) : make_async_resource(),
         {.quarantine_bytes = 50'000, .quarantine_blocks = 10});
    constexpr int threads = 4;
    constexpr int each = 150;
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([&, seed = process_seed() + static_cast<std::uint64_t>(t)] {
        std::mt19937_64 generator(seed);
        const auto mine = runtime().create_stream();
        std::vector<std::pair<gpu_ref<std::uint32_t>, std::uint32_t>> living;
        const auto look = [&](std::size_t which, stream_ref on) {
          const auto& [ref, value] = living[which];
          EXPECT_EQ(download(ref, on), std::vector<std::uint32_t>(ref.size(), value));
        };
        for (int i = 0; i < each; ++i) {
          if (living.size() > 6 || (!living.empty() && generator() % 3 == 0)) {
            const auto which = generator() % living.size();
            if (generator() % 4 == 0) look(which, generator() % 2 == 0 ? other() : mine.ref());
            living[which] = living.back();
            living.pop_back();
          }
          const auto value = static_cast<std::uint32_t>(generator());
          const auto& on = generator() % 4 == 0 ? other() : mine.ref();
          living.emplace_back(runtime().allocate<std::uint32_t>(1 + generator() % 2000, on), value);
          auto recorder = launch_recorder::strict(generator() % 4 == 0 ? stream() : mine.ref());
          recorder.write(living.back().first);
          recorder.preflight();
          const auto& ref = living.back().first;
          const auto native = runtime().core()->find(recorder.launch_stream())->native();
          runtime().device().fill(ref.data(), &value, sizeof value, ref.size(), native);
          (void)recorder.commit();
          if (generator() % 40 == 0) (void)runtime().trim_memory();
        }
        for (std::size_t which = 0; which < living.size(); ++which) look(which, mine);
      });
    }
    for (auto& thread : all) thread.join();
    close();
    EXPECT_EQ(counters().checked, std::uint64_t{threads} * each);
    EXPECT_EQ(counters().unchecked, 0u);
    EXPECT_EQ(counters().reported, 0u);
  }
}

// Where it stands over something that brings unfinished uses along, it fills behind them.
TEST_P(guard_on, fills_behind_earlier_uses_of_the_memory) {
  /// Has one piece of memory, which is used on a stream that the test names.
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
  auto* used_on = other().timeline();
  used_on->reserve();
  use = {used_on->id(), used_on->submit()};
  auto block = allocate(1000);
  EXPECT_EQ(uses_of(block).all, std::vector<timeline_point>{stream().timeline()->newest()});
  closed.open();
  block = {};
  close();
  EXPECT_EQ(counters().checked, 1u);
}

TEST(guard, takes_what_it_could_not_fill_or_read_for_unchecked) {
  // Three fills, the fourth is the overrun; later two reads and a fill.
  for (const std::uint64_t nth : {1U, 2U, 3U, 5U, 6U, 7U}) {
    const auto script = std::make_shared<fault_script>();
    const auto counters = std::make_shared<guard_counters>();
    const auto below = std::make_shared<memory_statistics>();
    {
      device_runtime runtime(
          open_host_device({.faults = script}),
          {.resource = make_guard_resource(
               make_statistics_resource(make_async_resource(), below),
               {.on_report = [](const guard_report&) {}, .counters = counters})});
      const auto on = runtime.create_stream();
      script->fail_nth(fault_target::copy, nth);
      auto block = runtime.allocate_bytes(100, on, "unfilled");
      auto recorder = launch_recorder::strict(on);
      recorder.use(block, access_kind::write, true);
      recorder.preflight();
      const std::uint8_t value = 1;
      runtime.device().fill(static_cast<std::byte*>(block.address()) + 100, &value, 1, 5,
                            on.ref().native());
      (void)recorder.commit();
      auto* reclaim = runtime.core()->reclaim_stream().timeline();
      const auto before = reclaim->newest().ticket;
      block = {};
      reclaim->wait_until(before + 1);  // not yet at the runtime's end, which keeps nothing
    }
    EXPECT_EQ(counters->unchecked, 1u) << nth;
    EXPECT_EQ(counters->checked, 0u) << nth;
    EXPECT_EQ(counters->reported, 0u) << nth;
    EXPECT_EQ(below->counters().bytes.current, 0u) << nth;
  }
}

TEST(guard, lets_a_lost_device_be) {
  for (std::uint64_t nth = 1; nth < 40; ++nth) {
    const auto script = std::make_shared<fault_script>();
    const auto counters = std::make_shared<guard_counters>();
    {
      device_runtime runtime(
          open_host_device({.faults = script}),
          {.resource = make_guard_resource(make_direct_resource({.tracked = true}),
                                           {.quarantine_blocks = 1, .counters = counters})});
      const auto on = runtime.create_stream();
      script->fail_nth(fault_target::loss, nth);
      std::vector<block_ref> blocks;
      try {
        for (int i = 0; i < 8; ++i) {
          blocks.push_back(runtime.allocate_bytes(100, on, "going"));
          if (i % 2 == 0) blocks.clear();
        }
        (void)runtime.trim_memory();
      } catch (const error& e) {
        EXPECT_EQ(e.code(), errc::device_lost);
      }
    }
    EXPECT_EQ(counters->reported, 0u);
  }
}

TEST(guard, lets_a_device_be_that_is_lost_behind_a_closed_gate) {
  const auto counters = std::make_shared<guard_counters>();
  {
    device_runtime runtime(
        open_host_device(),
        {.resource = make_guard_resource(make_async_resource(), {.counters = counters})});
    const auto on = runtime.create_stream();
    gate closed;
    closed.hold(on);
    for (int i = 0; i < 10; ++i) (void)runtime.allocate_bytes(1000, on);
    runtime.device().lose(error(errc::device_lost, "pulled out"));
    closed.open();
  }
  EXPECT_EQ(counters->unchecked, 10u);
  EXPECT_EQ(counters->checked, 0u);
}

TEST(guard, refuses_what_it_cannot_work_with) {
  EXPECT_TRUE(throws(errc::invalid_argument, "make_guard_resource: upstream is missing",
                     [] { (void)make_guard_resource(nullptr); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "'direct' does not track",
                     [] { (void)make_guard_resource(make_direct_resource()); }));
  for (const std::size_t size : {0, 1, 255, 257, 384}) {
    EXPECT_TRUE(throws(errc::invalid_argument, "red_zone", [&] {
      (void)make_guard_resource(make_async_resource(), {.red_zone = size});
    }));
  }
}

}  // namespace
}  // namespace sluice::test
