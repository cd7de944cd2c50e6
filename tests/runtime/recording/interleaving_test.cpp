// SPDX-License-Identifier: Apache-2.0
// Two launches that share blocks: one stops at each of its steps in turn while the other runs. No
// wait is lost, no thread waits for ever, and misuse is reported at once.
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/followed_launch.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/small_launches.hpp"
#include "tests/support/use_state.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <ostream>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

using detail::launch_step;

/// The accesses of one launch. Blocks are given by number.
struct plan {
  access_kind access = access_kind::read;
  std::vector<std::size_t> blocks;
};

[[nodiscard]] bool writes(const plan& p) {
  return p.access != access_kind::read;
}

/// The steps of a launch of `blocks` blocks without a conflict.
class step_list {
 public:
  explicit step_list(std::size_t blocks) : blocks_(blocks) {
    steps_.assign(blocks, launch_step::leasing);
    for (const auto step : {launch_step::leased, launch_step::fenced, launch_step::enqueued,
                            launch_step::submitted}) {
      steps_.push_back(step);
    }
    for (std::size_t i = 0; i < blocks; ++i) steps_.push_back(launch_step::published);
  }
  [[nodiscard]] std::size_t size() const noexcept { return steps_.size(); }
  [[nodiscard]] launch_step at(std::size_t number) const { return steps_.at(number); }
  /// Whether the launch holds the lease of block `i`, in lease order, at step `number`.
  [[nodiscard]] bool holds(std::size_t i, std::size_t number) const noexcept {
    return i < number && number < blocks_ + 4 + i;
  }
  /// Whether block `i` has the launch's point at step `number`.
  [[nodiscard]] bool published(std::size_t i, std::size_t number) const noexcept {
    return number >= blocks_ + 4 + i;
  }

 private:
  std::size_t blocks_;
  std::vector<launch_step> steps_;
};

/// Runs `launch` on a thread of its own, which stops at step `stop` of `steps`.
class stopped_launch {
 public:
  template <class Launch>
  stopped_launch(const step_list& steps, std::size_t stop, Launch launch) {
    followed_.stop_at(stop);
    thread_ = std::thread([this, launch] {
      const followed_launch::here here(followed_);
      launch();
    });
    followed_.await_stopped();
    EXPECT_EQ(followed_.stopped_at(), steps.at(stop));
  }
  void finish() {
    followed_.go_on();
    thread_.join();
  }

 private:
  followed_launch followed_;
  std::thread thread_;
};

/// A launch on a stream behind its own gate. A write fills each block; a read copies each block to
/// private memory.
class gated_launch {
 public:
  static constexpr std::size_t size = 64;

  gated_launch(device_runtime& runtime, std::uint32_t value)
      : stream_(runtime.create_stream()), value_(value) {
    for (auto& copy : copies_) {
      copy = runtime.allocate<std::uint32_t>(size, stream_, "copy");
      run_alone(copy);
    }
  }

  void begin() { (closed_ = std::make_unique<gate>())->hold(stream_); }
  void open() { closed_->open(); }

  /// Makes the launch, from preflight to commit. Throws their errors.
  void run(const plan& wanted, const std::vector<gpu_ref<std::uint32_t>>& blocks) {
    auto recorder = launch_recorder::strict(stream_);
    for (const auto b : wanted.blocks) recorder.use(blocks[b].block(), wanted.access, true);
    recorder.preflight();
    auto& device = stream_.ref().device();
    for (const auto b : wanted.blocks) {
      if (writes(wanted)) {
        device.fill(blocks[b].data(), &value_, sizeof value_, size, stream_.ref().native());
      } else {
        device.copy(copies_[b].data(), blocks[b].data(), blocks[b].bytes(),
                    copy_direction::device_to_device, stream_.ref().native());
      }
    }
    point_ = recorder.commit();
  }

  [[nodiscard]] stream_ref stream() const { return stream_; }
  [[nodiscard]] std::uint32_t value() const { return value_; }
  [[nodiscard]] timeline_point point() const { return point_; }
  /// Whether the launch read `expected` from block `b`.
  [[nodiscard]] bool found(std::size_t b, std::uint32_t expected) const {
    return download(copies_[b], stream_) == std::vector<std::uint32_t>(size, expected);
  }

 private:
  /// Runs each kind of work once, because the first launch of a kind may synchronize the device.
  void run_alone(const gpu_ref<std::uint32_t>& ref) {
    (void)launch_fill(ref, value_, stream_);
    stream_.synchronize();
  }

  sluice::stream stream_;
  std::uint32_t value_;
  std::array<gpu_ref<std::uint32_t>, 2> copies_;
  std::unique_ptr<gate> closed_;
  timeline_point point_;
};

class interleaving : public device_test {
 protected:
  void SetUp() override {
    device_test::SetUp();
    if (IsSkipped()) return;
    followed_launch::allow(runtime());
    detail::runtime_core::of(runtime())->leave_out([this](detail::hazard) { return leaving_out_; });
    auto random = make_generator();
    initial_ = static_cast<std::uint32_t>(random());
    first_ = std::make_unique<gated_launch>(runtime(), initial_ + 1);
    second_ = std::make_unique<gated_launch>(runtime(), initial_ + 2);
    // Leases are taken in the order of the records.
    for (int i = 0; i < 2; ++i) {
      blocks_.push_back(runtime().allocate<std::uint32_t>(gated_launch::size, stream(), "shared"));
    }
    std::sort(blocks_.begin(), blocks_.end(), [](const auto& a, const auto& b) {
      return detail::block_record::of(a.block()) < detail::block_record::of(b.block());
    });
    other_ = runtime().allocate<std::uint32_t>(16, stream(), "other");
  }
  void TearDown() override {
    first_.reset();
    second_.reset();
    blocks_.clear();
    other_ = {};
    device_test::TearDown();
  }

  /// Visits all combinations of accesses and blocks of two launches.
  template <class Visit>
  void for_each_meeting(Visit visit) {
    const std::vector<std::pair<std::vector<std::size_t>, std::vector<std::size_t>>> sets{
        {{0}, {0}}, {{0, 1}, {1, 0}}, {{0, 1}, {0}}, {{0, 1}, {1}}, {{1}, {1, 0}}};
    for (const auto& [of_first, of_second] : sets) {
      for (const auto first : {access_kind::read, access_kind::write}) {
        for (const auto second : {access_kind::read, access_kind::write, access_kind::read_write}) {
          const step_list steps(of_first.size());
          for (std::size_t stop = 0; stop < steps.size(); ++stop) {
            SCOPED_TRACE(::testing::Message()
                         << of_first.size() << " and " << of_second.size() << " blocks from "
                         << of_first.front() << " and " << of_second.front() << ", accesses "
                         << static_cast<int>(first) << " and " << static_cast<int>(second)
                         << ", the first stops at step " << stop);
            visit(plan{first, of_first}, plan{second, of_second}, steps, stop);
            if (HasFailure()) return;
          }
        }
      }
    }
  }

  /// Whether `second` conflicts with the first launch stopped at step `stop`.
  static bool conflict(const plan& first, const plan& second, const step_list& steps,
                       std::size_t stop) {
    if (!writes(first) && !writes(second)) return false;
    for (std::size_t i = 0; i < first.blocks.size(); ++i) {
      if (steps.holds(i, stop) && shares(second, first.blocks[i])) return true;
    }
    return false;
  }
  static bool shares(const plan& p, std::size_t block) {
    return std::find(p.blocks.begin(), p.blocks.end(), block) != p.blocks.end();
  }

  /// Runs both launches. Returns whether the data are those of a serial execution.
  bool meet(const plan& first, const plan& second, const step_list& steps, std::size_t stop) {
    for (const auto& block : blocks_) reset(block);
    first_->begin();
    second_->begin();

    stopped_launch one(steps, stop, [&] { first_->run(first, blocks_); });
    followed_launch of_second;
    std::atomic<bool> through{false};
    std::thread two([&] {
      const followed_launch::here here(of_second);
      second_->run(second, blocks_);
      through.store(true);
    });
    await([&] { return of_second.blocked() || through.load(); });
    EXPECT_EQ(of_second.blocked(), conflict(first, second, steps, stop));
    EXPECT_NE(through.load(), of_second.blocked());
    one.finish();
    two.join();
    EXPECT_EQ(runtime().statistics().leases, 0u);

    // The shared block that the first launch leases first decides the order.
    std::size_t shared = 0;
    while (!shares(second, first.blocks[shared])) ++shared;
    const bool first_leads = of_second.blocked() || steps.published(shared, stop);
    auto& earlier = first_leads ? *first_ : *second_;
    auto& later = first_leads ? *second_ : *first_;
    const bool ordered = writes(first) || writes(second);
    if (ordered && !leaving_out_) {
      EXPECT_TRUE(waits_for(later.stream(), earlier.stream(), earlier.point().ticket))
          << "the later launch does not wait for the earlier one";
    }
    later.open();
    // Without the wait, the later launch finishes before the earlier one begins.
    if (leaving_out_) rest(later.stream());
    expect_points(first_leads ? first : second, first_leads ? second : first, earlier, later);
    earlier.open();
    first_->stream().synchronize();
    second_->stream().synchronize();
    return right(first_leads ? first : second, first_leads ? second : first, earlier, later);
  }

  void expect_points(const plan& earlier_plan, const plan& later_plan, const gated_launch& earlier,
                     const gated_launch& later) {
    for (const auto b : earlier_plan.blocks) {
      if (!shares(later_plan, b)) continue;
      const auto uses = uses_of(blocks_[b]);
      EXPECT_TRUE(uses.holds(later.point()));
      if (writes(later_plan)) {
        EXPECT_EQ(uses.last_write, later.point());
        EXPECT_EQ(uses.all.size(), 1u) << "it stands for what it waited for";
      } else {
        EXPECT_TRUE(uses.holds(earlier.point()));
        EXPECT_EQ(uses.last_write == earlier.point(), writes(earlier_plan));
      }
    }
  }

  bool right(const plan& earlier_plan, const plan& later_plan, const gated_launch& earlier,
             const gated_launch& later) {
    bool all = true;
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      auto value = initial_;
      for (const auto& [p, launch] :
           {std::pair(&earlier_plan, &earlier), std::pair(&later_plan, &later)}) {
        if (!shares(*p, b)) continue;
        if (writes(*p)) {
          value = launch->value();
        } else {
          all = launch->found(b, value) && all;
        }
      }
      all =
          download(blocks_[b], stream()) == std::vector<std::uint32_t>(gated_launch::size, value) &&
          all;
    }
    return all;
  }

  void reset(const gpu_ref<std::uint32_t>& block) {
    (void)launch_fill(block, initial_, stream());
    stream().synchronize();
  }

  bool leaving_out_ = false;
  std::uint32_t initial_ = 0;
  std::vector<gpu_ref<std::uint32_t>> blocks_;
  gpu_ref<std::uint32_t> other_;
  std::unique_ptr<gated_launch> first_;
  std::unique_ptr<gated_launch> second_;
};
INSTANTIATE_TEST_SUITE_P(devices, interleaving, every_device(), parameter_name);

TEST_P(interleaving, of_two_launches_loses_no_fence) {
  for_each_meeting([&](const plan& first, const plan& second, const step_list& steps,
                       std::size_t stop) { EXPECT_TRUE(meet(first, second, steps, stop)); });
}

TEST_P(interleaving, with_a_thread_that_holds_a_lease_is_misuse_at_once) {
  for_each_meeting(
      [&](const plan& first, const plan& second, const step_list& steps, std::size_t stop) {
        for (const auto& block : blocks_) reset(block);
        first_->begin();
        stopped_launch one(steps, stop, [&] { first_->run(first, blocks_); });
        auto held = begin_read(other_, stream());
        second_->begin();
        followed_launch of_second;
        const auto refusal = error_of([&] {
          const followed_launch::here here(of_second);
          second_->run(second, blocks_);
        });
        (void)held.commit();
        EXPECT_EQ(refusal.has_value(), conflict(first, second, steps, stop));
        EXPECT_TRUE(!refusal || refusal->code() == errc::stream_misuse) << refusal->what();
        EXPECT_FALSE(of_second.blocked());
        one.finish();
        EXPECT_EQ(runtime().statistics().leases, 0u);
        first_->open();
        second_->open();
        first_->stream().synchronize();
        second_->stream().synchronize();
      });
}

/// Without the wait, the same check fails.
using interleaving_controls = interleaving;
INSTANTIATE_TEST_SUITE_P(devices, interleaving_controls, every_device(), parameter_name);

TEST_P(interleaving_controls, show_a_lost_fence_at_each_step) {
  leaving_out_ = true;
  for_each_meeting(
      [&](const plan& first, const plan& second, const step_list& steps, std::size_t stop) {
        if (!writes(first) && !writes(second)) return;
        EXPECT_FALSE(meet(first, second, steps, stop));
      });
}

// A free while another thread's launch is stopped at one of its steps.

class freed_meanwhile : public named_device_test {
 protected:
  /// Stops the launch at step `stop`, then frees its first (or second) block, with `deallocate` or
  /// with the last reference.
  static void meet(std::size_t stop, std::size_t freed, bool explicitly) {
    // The pool reuses memory at once, with its unfinished uses.
    device_runtime runtime(
        open_device(GetParam()),
        {.resource = make_pool_resource(make_async_resource(), {.prefer_unfinished = true})});
    followed_launch::allow(runtime);
    const auto launching = runtime.create_stream();
    const auto asking = runtime.create_stream();
    const auto allocate = [&](const stream& stream) {
      return runtime.allocate<std::uint32_t>(64, stream, "freed");
    };
    std::vector<gpu_ref<std::uint32_t>> blocks{allocate(launching), allocate(launching)};
    std::sort(blocks.begin(), blocks.end(), [](const auto& a, const auto& b) {
      return detail::block_record::of(a.block()) < detail::block_record::of(b.block());
    });
    launching.synchronize();
    gate closed;
    closed.hold(launching);

    const step_list steps(blocks.size());
    std::optional<error> failure;
    timeline_point point;
    auto recorder = launch_recorder::strict(launching);
    for (const auto& block : blocks) recorder.write(block);
    stopped_launch launch(steps, stop, [&] {
      failure = error_of([&] {
        recorder.preflight();
        point = recorder.commit();
      });
    });
    const void* const address = blocks[freed].data();
    if (explicitly) {
      runtime.deallocate(blocks[freed].block());
      EXPECT_TRUE(blocks[freed].stale());
    } else {
      blocks[freed] = {};
    }
    const bool leased = steps.holds(freed, stop);
    EXPECT_EQ(runtime.statistics().blocks, leased ? 2u : 1u);
    auto meanwhile = allocate(asking);
    EXPECT_EQ(meanwhile.data() == address, !leased) << "memory that a launch has leased";
    launch.finish();
    EXPECT_EQ(runtime.statistics().leases, 0u);
    if (!leased && !steps.published(freed, stop)) {
      ASSERT_TRUE(failure.has_value());
      EXPECT_EQ(failure->code(), errc::stale_ref);
      EXPECT_EQ(runtime.statistics().blocks, 2u);
      return;
    }
    EXPECT_FALSE(failure.has_value());
    // The block has been freed, and the new one waits for the launch, which has not run.
    const auto again = leased ? allocate(asking) : meanwhile;
    EXPECT_EQ(again.data(), address);
    EXPECT_TRUE(uses_of(again).holds(point));
  }
};
INSTANTIATE_TEST_SUITE_P(devices, freed_meanwhile, every_device(), parameter_name);

TEST_P(freed_meanwhile, memory_goes_back_with_the_last_lease) {
  for (std::size_t stop = 0; stop < step_list(2).size(); ++stop) {
    for (const std::size_t freed : {0u, 1u}) {
      for (const bool explicitly : {true, false}) {
        SCOPED_TRACE(::testing::Message()
                     << "step " << stop << ", block " << freed << ", explicitly " << explicitly);
        meet(stop, freed, explicitly);
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::test
