// The budget: what is charged, what is set aside, and how room is made.
#include "runtime/runtime_core.hpp"
#include "tests/runtime/use_state.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/memory_adaptors.hpp>
#include <sluice/runtime/memory_budget.hpp>
#include <sluice/runtime/releasable.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class budget_on : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_device(GetParam())) {
      GTEST_SKIP() << "this machine has no device '" << GetParam() << "'";
    }
    device_ = open_device(GetParam());
    budget_ = std::make_shared<memory_budget>();
    faults_ = std::make_shared<fault_countdown>();
    runtime_ = make_runtime();
    stream_ = runtime_->create_stream();
  }
  void TearDown() override {
    if (!runtime_) return;
    // While the account is there, so that nothing is discharged but what was given back.
    (void)runtime_->trim_memory();
    const auto left = budget_->snapshot();
    EXPECT_EQ(left.held, 0u);
    EXPECT_TRUE(left.tags.empty());
    stream_ = {};
    runtime_.reset();
    expect_all_free(*budget_);
  }
  /// Nothing is charged any more.
  static void expect_all_free(memory_budget& budget) {
    EXPECT_EQ(budget.snapshot().held, 0u);
    EXPECT_EQ(budget.snapshot().reserved, 0u);
  }

  /// Another runtime on the same device and budget.
  [[nodiscard]] std::unique_ptr<device_runtime> make_runtime() const {
    return std::make_unique<device_runtime>(
        device_, runtime_options{
                     .resource = make_budget_resource(
                         make_pool_resource(make_failing_resource(make_async_resource(), faults_)),
                         budget_)});
  }
  [[nodiscard]] device_runtime& runtime() const { return *runtime_; }
  [[nodiscard]] stream_ref stream() const { return stream_; }
  [[nodiscard]] memory_budget& budget() const { return *budget_; }
  [[nodiscard]] const std::shared_ptr<memory_budget>& shared_budget() const { return budget_; }
  [[nodiscard]] fault_countdown& faults() const { return *faults_; }
  [[nodiscard]] block_ref allocate(std::size_t bytes, allocation_tag tag = "budgeted") const {
    return runtime().allocate_bytes(bytes, stream(), tag);
  }
  [[nodiscard]] memory_reservation reserve(const std::vector<std::size_t>& sizes) const {
    return runtime().reserve_memory(sizes);
  }

 private:
  std::shared_ptr<device> device_;
  std::shared_ptr<memory_budget> budget_;
  std::shared_ptr<fault_countdown> faults_;
  std::unique_ptr<device_runtime> runtime_;
  sluice::stream stream_;
};
INSTANTIATE_TEST_SUITE_P(devices, budget_on, every_device(), parameter_name);

TEST_P(budget_on, charges_what_is_taken_from_the_device_and_live_blocks_to_their_tags) {
  const auto a = allocate(4096, "a");
  auto b = allocate(1000, "b");
  auto c = allocate(1, "a");
  auto s = budget().snapshot();
  EXPECT_EQ(s.held, 4096u + 1024 + 256);
  EXPECT_EQ(s.kept, 0u);
  EXPECT_EQ(s.limit, memory_budget::unlimited);
  ASSERT_EQ(s.tags.size(), 2u);
  EXPECT_EQ(s.tags[0].tag, "a");
  EXPECT_EQ(s.tags[0].bytes, 4352u);
  EXPECT_EQ(s.tags[0].blocks, 2u);
  EXPECT_EQ(s.tags[1].tag, "b");
  b = {};
  c = {};
  s = budget().snapshot();
  EXPECT_EQ(s.held, 4096u + 1024 + 256) << "the pool has it still";
  EXPECT_EQ(s.kept, 1024u + 256);
  ASSERT_EQ(s.tags.size(), 1u);
  EXPECT_EQ(s.tags[0].bytes, 4096u);
  EXPECT_EQ(runtime().trim_memory(), 1024u + 256);
  s = budget().snapshot();
  EXPECT_EQ(s.held, 4096u);
  EXPECT_EQ(s.peak, 4096u + 1024 + 256);
}

TEST_P(budget_on, says_at_the_limit_who_holds_what) {
  budget().set_limit(10'000);
  const auto a = allocate(6144, "weights");
  const auto b = allocate(2048, "scratch");
  auto aside = reserve({1000});
  EXPECT_TRUE(throws(errc::over_budget,
                     "2048 bytes for batch would exceed the memory budget of 10000: 8192 are held "
                     "and 1024 reserved; of that pools keep 0, 'weights' has 6144, 'scratch' has "
                     "2048",
                     [&] { (void)allocate(2048, "batch"); }));
  EXPECT_TRUE(is_retryable(errc::over_budget));
  EXPECT_EQ(runtime().statistics().blocks, 2u);
  aside.release();
  EXPECT_EQ(allocate(1792, "batch").bytes(), 1792u);
}

TEST_P(budget_on, makes_room_of_what_pools_keep_in_every_runtime_on_it) {
  const auto other = make_runtime();
  const auto elsewhere = other->create_stream();
  budget().set_limit(10'240);
  auto here = allocate(4096);
  auto there = other->allocate_bytes(5120, elsewhere);
  here = {};
  there = {};
  EXPECT_EQ(budget().snapshot().kept, 9216u);
  // Of a size that no pool has.
  const auto large = allocate(8192);
  EXPECT_EQ(budget().snapshot().held, 8192u);
  EXPECT_TRUE(throws(errc::over_budget, "4096 bytes",
                     [&] { (void)other->allocate_bytes(4096, elsewhere); }));
}

TEST_P(budget_on, drops_the_owners_of_completed_launches_before_it_gives_up) {
  struct owner final : releasable {
    explicit owner(block_ref b) : block(std::move(b)) {}
    block_ref block;
  };
  budget().set_limit(4096);
  auto kept = std::make_unique<owner>(allocate(4096));
  runtime().core()->releases().push(kept.release());
  EXPECT_EQ(allocate(2048).bytes(), 2048u);
}

TEST_P(budget_on, drops_the_owners_of_completed_launches_in_every_runtime_on_it) {
  struct owner final : releasable {
    explicit owner(block_ref b) : block(std::move(b)) {}
    block_ref block;
  };
  const auto other = make_runtime();
  const auto elsewhere = other->create_stream();
  budget().set_limit(4096);
  auto kept = std::make_unique<owner>(other->allocate_bytes(4096, elsewhere));
  other->core()->releases().push(kept.release());
  EXPECT_EQ(allocate(2048).bytes(), 2048u);
  EXPECT_EQ(other->statistics().releases_pending, 0u);
}

TEST_P(budget_on, obeys_a_limit_that_changes) {
  auto a = allocate(4096);
  budget().set_limit(1000);
  EXPECT_TRUE(throws(errc::over_budget, "4096 are held", [&] { (void)allocate(256); }));
  a = {};
  EXPECT_EQ(allocate(256).bytes(), 256u);
  budget().set_limit(memory_budget::unlimited);
  EXPECT_EQ(allocate(4096).bytes(), 4096u);
}

TEST_P(budget_on, reserves_for_all_or_for_none) {
  budget().set_limit(10'000);
  EXPECT_TRUE(throws(errc::over_budget, "a reservation", [&] {
    (void)reserve({5000, 4000, 2000});
  }));
  EXPECT_EQ(budget().snapshot().reserved, 0u);
  auto aside = reserve({4096, 4000, 0});
  EXPECT_EQ(aside.left(), 4096u + 4096);
  EXPECT_EQ(budget().snapshot().reserved, 8192u);
  EXPECT_EQ(budget().snapshot().held, 0u);
  // Others cannot have it.
  EXPECT_TRUE(throws(errc::over_budget, "reserved", [&] { (void)allocate(2048); }));
  const auto first = runtime().allocate<float>(1000, stream(), "first", aside);
  const auto second = runtime().allocate_bytes(4096, stream(), "second", aside);
  EXPECT_EQ(aside.left(), 0u);
  EXPECT_EQ(budget().snapshot().held, 8192u);
  EXPECT_TRUE(throws(errc::invalid_argument, "from: 256 bytes are needed for 1, and 0 are left",
                     [&] { (void)runtime().allocate_bytes(1, stream(), "third", aside); }));
}

TEST_P(budget_on, returns_what_was_reserved_and_not_used) {
  budget().set_limit(8192);
  (void)allocate(4096);  // the pool keeps it
  {
    auto aside = reserve({4096});
    const auto a = runtime().allocate_bytes(4096, stream(), "a", aside);
    EXPECT_EQ(aside.left(), 0u);
    EXPECT_EQ(budget().snapshot().held, 4096u) << "nothing new was needed";
    EXPECT_EQ(budget().snapshot().reserved, 0u) << "so it is anybody's again";
  }
  auto first = reserve({2048});
  auto second = std::move(first);
  EXPECT_EQ(first.left(), 0u);  // NOLINT(bugprone-use-after-move): what it says
  EXPECT_EQ(second.left(), 2048u);
  second = reserve({1024});
  EXPECT_EQ(budget().snapshot().reserved, 1024u);
  second = {};
  EXPECT_EQ(budget().snapshot().reserved, 0u);
}

TEST_P(budget_on, a_reservation_survives_a_failed_allocation) {
  budget().set_limit(8192);
  auto aside = reserve({4096});
  faults().fail_nth(1, 100);
  EXPECT_TRUE(throws(errc::out_of_memory, "scripted",
                     [&] { (void)runtime().allocate_bytes(4096, stream(), "a", aside); }));
  faults().fail_nth(0, 0);
  EXPECT_EQ(aside.left(), 4096u);
  EXPECT_EQ(budget().snapshot().held, 0u);
  EXPECT_EQ(runtime().allocate_bytes(4096, stream(), "a", aside).bytes(), 4096u);
}

/// A pool under `budget` or over it: it gives up what it keeps in either case.
std::unique_ptr<memory_resource> make_pooled(std::shared_ptr<memory_budget> budget,
                                             bool pool_on_top) {
  if (pool_on_top) {
    return make_pool_resource(make_budget_resource(make_async_resource(), std::move(budget)));
  }
  return make_budget_resource(make_pool_resource(make_async_resource()), std::move(budget));
}

// What is kept is of another size: it does not serve the reservation, but its bytes do.
TEST_P(budget_on, reserves_what_pools_keep) {
  for (const bool pool_on_top : {false, true}) {
    SCOPED_TRACE(pool_on_top ? "pool over budget" : "budget over pool");
    const auto tight = std::make_shared<memory_budget>(8192);
    device_runtime pooled(runtime().shared_device(), {.resource = make_pooled(tight, pool_on_top)});
    const auto on = pooled.create_stream();
    const auto live = pooled.allocate_bytes(1024, on, "live");
    (void)pooled.allocate_bytes(6144, on, "kept");
    EXPECT_EQ(tight->snapshot().held, 7168u) << "the pool does not keep it";
    auto aside = pooled.reserve_memory(std::vector<std::size_t>{4096, 2048});
    EXPECT_EQ(aside.left(), 6144u);
    EXPECT_EQ(tight->snapshot().reserved, 6144u);
    EXPECT_EQ(tight->snapshot().held, 1024u);
    const auto a = pooled.allocate_bytes(4096, on, "a", aside);
    const auto b = pooled.allocate_bytes(2048, on, "b", aside);
    EXPECT_EQ(aside.left(), 0u);
    EXPECT_EQ(tight->snapshot().held, 7168u);
  }
}

TEST_P(budget_on, refuses_to_reserve_more_than_all_that_pools_keep) {
  for (const bool pool_on_top : {false, true}) {
    SCOPED_TRACE(pool_on_top ? "pool over budget" : "budget over pool");
    const auto tight = std::make_shared<memory_budget>(8192);
    device_runtime pooled(runtime().shared_device(), {.resource = make_pooled(tight, pool_on_top)});
    const auto on = pooled.create_stream();
    const auto live = upload(pooled, on, std::vector<float>(1024, 3));
    (void)pooled.allocate_bytes(2048, on, "kept");
    const auto uses = uses_of(live).version;
    const auto before = pooled.statistics();
    EXPECT_TRUE(throws(errc::over_budget,
                       "5120 bytes for a reservation would exceed the memory budget of 8192: 4096 "
                       "are held and 0 reserved",
                       [&] {
                         (void)pooled.reserve_memory(std::vector<std::size_t>{4096, 1024});
                       }));
    // But that the pool keeps nothing any more.
    EXPECT_EQ(tight->snapshot().held, 4096u);
    EXPECT_EQ(tight->snapshot().reserved, 0u);
    const auto after = pooled.statistics();
    EXPECT_EQ(after.bytes_outstanding, before.bytes_outstanding);
    EXPECT_EQ(after.blocks, before.blocks);
    EXPECT_EQ(after.references, before.references);
    EXPECT_EQ(after.points, before.points);
    EXPECT_EQ(after.launches, before.launches);
    EXPECT_EQ(uses_of(live).version, uses);
    EXPECT_EQ(download(live, on), std::vector<float>(1024, 3));
    // What is left can be had.
    EXPECT_EQ(pooled.reserve_memory(std::vector<std::size_t>{4096}).left(), 4096u);
  }
}

TEST_P(budget_on, refuses_an_empty_reservation) {
  budget().set_limit(8192);
  auto aside = reserve({4096});
  const auto moved = std::move(aside);
  EXPECT_TRUE(throws(errc::invalid_argument, "from: an empty reservation", [&] {
    // NOLINTNEXTLINE(bugprone-use-after-move): what it is about
    (void)runtime().allocate_bytes(1024, stream(), "a", aside);
  }));
}

TEST_P(budget_on, counts_for_the_peak_what_was_had) {
  (void)allocate(4096);
  EXPECT_TRUE(throws(errc::out_of_memory, "", [&] { (void)allocate(std::size_t{1} << 60); }));
  EXPECT_EQ(budget().snapshot().peak, 4096u);
}

TEST_P(budget_on, refuses_a_reservation_of_another_budget) {
  const auto other = std::make_shared<memory_budget>();
  memory_reservation foreign(other, 4096);
  EXPECT_TRUE(throws(errc::invalid_argument, "from: a reservation of another budget",
                     [&] { (void)runtime().allocate_bytes(10, stream(), "a", foreign); }));
  EXPECT_EQ(foreign.left(), 4096u);
  const std::vector<std::size_t> too_many{~std::size_t{0} / 2, ~std::size_t{0} / 2, 4096};
  EXPECT_TRUE(throws(errc::invalid_argument, "overflows", [&] { (void)reserve(too_many); }));
}

TEST_P(budget_on, holds_against_threads) {
  constexpr int threads = 4;
  constexpr std::size_t limit = 16'384;
  budget().set_limit(limit);
  const auto seed = make_generator()();
  std::atomic<int> granted{0};
  std::atomic<int> refused{0};
  std::vector<std::thread> clients;
  for (int t = 0; t < threads; ++t) {
    clients.emplace_back([&, t] {
      std::mt19937_64 random(seed + static_cast<std::uint64_t>(t));
      const auto own = runtime().create_stream();
      std::vector<block_ref> blocks;
      for (int i = 0; i < 400; ++i) {
        try {
          if (random() % 4 == 0) {
            auto aside = runtime().reserve_memory(std::vector<std::size_t>{2048, 1024});
            blocks.push_back(runtime().allocate_bytes(2048, own, "reserved", aside));
          } else {
            blocks.push_back(runtime().allocate_bytes(256 + random() % 4096, own, "free"));
          }
          ++granted;
        } catch (const error& e) {
          if (e.code() != errc::over_budget) throw;
          ++refused;
          blocks.clear();
        }
        if (random() % 3 == 0) blocks.clear();
      }
    });
  }
  for (auto& client : clients) client.join();
  EXPECT_GT(granted, 0);
  EXPECT_GT(refused, 0);
  EXPECT_LE(budget().snapshot().peak, limit);
  EXPECT_EQ(runtime().bytes_outstanding(), 0u);
}

TEST_P(budget_on, gives_racing_reservations_what_there_is_and_no_more) {
  constexpr int threads = 4;
  budget().set_limit(3 * 1024);
  for (int round = 0; round < 50; ++round) {
    std::latch start(threads);
    std::vector<memory_reservation> got(threads);
    std::vector<std::thread> clients;
    for (auto& mine : got) {
      clients.emplace_back([&] {
        start.arrive_and_wait();
        try {
          mine = reserve({1024});
        } catch (const error& e) {
          EXPECT_EQ(e.code(), errc::over_budget);
        }
      });
    }
    for (auto& client : clients) client.join();
    std::size_t sum = 0;
    for (const auto& mine : got) sum += mine.left();
    ASSERT_EQ(sum, 3u * 1024);
  }
}

TEST_P(budget_on, of_a_device_is_shared_by_its_runtimes) {
  const auto shared = memory_budget::of(runtime().device().id());
  EXPECT_EQ(shared, memory_budget::of(runtime().device().id()));
  EXPECT_NE(shared, memory_budget::of(device_id{device_kind::host, 999}));
  const auto before = shared->snapshot().held;
  device_runtime one(runtime().shared_device());
  device_runtime two(runtime().shared_device());
  const auto on_one = one.create_stream();
  const auto on_two = two.create_stream();
  const auto a = one.allocate_bytes(1024, on_one);
  const auto b = two.allocate_bytes(2048, on_two);
  EXPECT_EQ(shared->snapshot().held - before, 3072u);
}

TEST_P(budget_on, may_stand_under_another_one) {
  const auto inner = std::make_shared<memory_budget>(4096);
  const auto outer = std::make_shared<memory_budget>(8192);
  device_runtime nested(runtime().shared_device(),
                        {.resource = make_budget_resource(
                             make_budget_resource(make_async_resource(), inner), outer)});
  const auto on = nested.create_stream();
  const auto a = nested.allocate_bytes(4096, on);
  EXPECT_EQ(inner->snapshot().held, 4096u);
  EXPECT_EQ(outer->snapshot().held, 4096u);
  EXPECT_TRUE(
      throws(errc::over_budget, "budget of 4096", [&] { (void)nested.allocate_bytes(256, on); }));
  outer->set_limit(1024);
  inner->set_limit(memory_budget::unlimited);
  EXPECT_TRUE(
      throws(errc::over_budget, "budget of 1024", [&] { (void)nested.allocate_bytes(256, on); }));
  EXPECT_EQ(inner->snapshot().held, 4096u);
}

TEST_P(budget_on, under_another_one_takes_part_in_what_that_does) {
  const auto inner = std::make_shared<memory_budget>(8192);
  const auto outer = std::make_shared<memory_budget>(8192);
  const auto make = [&](std::shared_ptr<memory_budget> above) {
    return std::make_unique<device_runtime>(
        runtime().shared_device(),
        runtime_options{.resource = make_budget_resource(
                            make_budget_resource(make_pool_resource(make_async_resource()), inner),
                            std::move(above))});
  };
  const auto one = make(outer);
  const auto two = make(std::make_shared<memory_budget>());
  const auto on_one = one->create_stream();
  const auto on_two = two->create_stream();
  {
    auto aside = one->reserve_memory(std::vector<std::size_t>{4096});
    const auto a = one->allocate_bytes(4096, on_one, "reserved", aside);
    EXPECT_EQ(aside.left(), 0u);
    EXPECT_EQ(inner->snapshot().held, 4096u);
    EXPECT_EQ(outer->snapshot().held, 4096u);
  }
  // What the one's pool keeps makes room for the other, through the budget that they share.
  EXPECT_EQ(two->allocate_bytes(8192, on_two).bytes(), 8192u);
}

// A pool hands memory out for something else than it was taken for.
TEST_P(budget_on, under_a_pool_counts_what_the_pool_took) {
  const auto inner = std::make_shared<memory_budget>();
  device_runtime pooled(
      runtime().shared_device(),
      {.resource = make_pool_resource(make_budget_resource(make_async_resource(), inner))});
  const auto on = pooled.create_stream();
  const void* const address = pooled.allocate_bytes(4096, on, "first").address();
  const auto second = pooled.allocate_bytes(4096, on, "second");
  EXPECT_EQ(second.address(), address);
  ASSERT_EQ(inner->snapshot().tags.size(), 1u);
  EXPECT_EQ(inner->snapshot().tags[0].tag, "first");
  pooled.deallocate(second);
  EXPECT_EQ(pooled.trim_memory(), 4096u);
  EXPECT_TRUE(inner->snapshot().tags.empty());
}

// Memory that goes by the reclaim thread is there again when it is needed.
TEST_P(budget_on, at_the_limit_what_has_been_freed_is_free) {
  const auto tight = std::make_shared<memory_budget>(4096);
  for (const bool with_pool : {false, true}) {
    auto direct = make_direct_resource({.tracked = true});
    if (with_pool) direct = make_pool_resource(std::move(direct));
    device_runtime reclaiming(runtime().shared_device(),
                              {.resource = make_budget_resource(std::move(direct), tight)});
    const auto on = reclaiming.create_stream();
    for (std::size_t i = 0; i < 50; ++i) {
      ASSERT_NO_THROW((void)reclaiming.allocate_bytes(i % 2 == 0 ? 4096 : 2048, on)) << i;
    }
  }
}

/// A resource at the bottom whose free goes by the reclaim thread, and that says when it is used
/// against the rules.
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

TEST_P(budget_on, does_not_ask_a_runtime_that_is_being_made) {
  budget().set_limit(4096);
  const auto want_too_much = [&] {
    EXPECT_TRUE(throws(errc::over_budget, "", [&] { (void)allocate(8192); }));
  };
  probe::seen seen;
  seen.when_bound = [&] {
    std::thread(want_too_much).join();
  };
  device_runtime made(runtime().shared_device(),
                      {.resource = make_budget_resource(
                           make_pool_resource(std::make_unique<probe>(seen)), shared_budget())});
}

TEST_P(budget_on, can_be_looked_at_while_room_is_made) {
  budget().set_limit(4096);
  probe::seen seen;
  std::latch asked(1);
  std::latch go_on(1);
  std::atomic<bool> first{true};
  device_runtime slow(runtime().shared_device(),
                      {.resource = make_budget_resource(
                           make_pool_resource(std::make_unique<probe>(seen)), shared_budget())});
  {
    const auto on = slow.create_stream();
    (void)slow.allocate_bytes(256, on);
  }
  seen.when_freed = [&] {
    if (!first.exchange(false)) return;
    asked.count_down();
    go_on.wait();
  };
  std::thread asking(
      [&] { EXPECT_TRUE(throws(errc::over_budget, "", [&] { (void)allocate(8192); })); });
  asked.wait();
  EXPECT_EQ(budget().snapshot().limit, 4096u);
  {
    // Nor does a runtime wait that is made or ends meanwhile.
    const auto other = make_runtime();
  }
  go_on.count_down();
  asking.join();
}

TEST_P(budget_on, does_not_ask_a_runtime_that_has_begun_to_end) {
  budget().set_limit(4096);
  probe::seen seen;
  std::latch asked(1);
  std::latch go_on(1);
  std::atomic<bool> first{true};
  auto ending = std::make_unique<device_runtime>(
      runtime().shared_device(),
      runtime_options{.resource = make_budget_resource(
                          make_pool_resource(std::make_unique<probe>(seen)), shared_budget())});
  {
    const auto on = ending->create_stream();
    const auto a = ending->allocate_bytes(256, on);
    const auto b = ending->allocate_bytes(512, on);
  }
  seen.when_freed = [&] {
    if (!first.exchange(false)) return;
    asked.count_down();
    go_on.wait();
  };
  // The request of the one runtime is in the middle of the other one's lists when that ends.
  std::thread asking(
      [&] { EXPECT_TRUE(throws(errc::over_budget, "", [&] { (void)allocate(8192); })); });
  asked.wait();
  std::thread ends([&] { ending.reset(); });
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  go_on.count_down();
  ends.join();
  asking.join();
  EXPECT_EQ(seen.reclaimed, 2);
  EXPECT_EQ(seen.reclaimed_too_late, 0);
}

TEST(memory_budget, of_a_lost_device_is_free_again) {
  const auto budget = std::make_shared<memory_budget>(4096);
  block_ref outlives;
  {
    device_runtime runtime(
        open_host_device(),
        {.resource = make_budget_resource(make_pool_resource(make_async_resource()), budget)});
    const auto stream = runtime.create_stream();
    outlives = runtime.allocate_bytes(2048, stream);
    (void)runtime.allocate_bytes(1024, stream);
    runtime.device().lose(error(errc::device_lost, "for this test"));
    EXPECT_EQ(budget->snapshot().held, 3072u);
  }
  EXPECT_EQ(budget->snapshot().held, 0u);
  EXPECT_TRUE(budget->snapshot().tags.empty());
  EXPECT_EQ(memory_reservation(budget, 4096).left(), 4096u) << "something is charged still";
}

TEST(memory_budget, needs_something_to_limit) {
  EXPECT_TRUE(throws(errc::invalid_argument, "upstream", [] { (void)make_budget_resource({}); }));
}

}  // namespace
}  // namespace sluice::test
