// SPDX-License-Identifier: Apache-2.0
// Launches that are made together. The device is a host device that presents itself as a GPU: all
// members of a batch are one call, and one event stands for them.
#include "runtime/recording/joint_launches.hpp"
#include "tests/envelope/launches.hpp"
#include "tests/envelope/timing_trace.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/pretended_gpu.hpp"

#include <sluice/envelope/kernel_envelope.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace sluice::test {
namespace {

using bytes = gpu_ref<std::uint8_t>;

/// Fills the block of each launch with its number.
class filling final : public detail::batch_closure {
 public:
  std::vector<bytes> blocks;
  std::function<void()> before_all = [] {
  };
  std::function<void(std::size_t)> before_one = [](std::size_t) {
  };
  int calls_together = 0;

  void enqueue_one(const launch_context& context, std::size_t i) override {
    before_one(i);
    fill(context, i);
  }
  void enqueue_together(const launch_context& context,
                        std::span<const std::uint32_t> numbers) override {
    before_all();
    ++calls_together;
    for (const auto i : numbers) fill(context, i);
  }

 private:
  void fill(const launch_context& context, std::size_t i) {
    const auto value = static_cast<std::uint8_t>(i + 1);
    context.stream.device().fill(blocks[i].data(), &value, 1, blocks[i].bytes(), context.native());
  }
};

/// A pretended GPU that counts the timestamps that are recorded. While it is held, no event
/// completes.
class stamping_gpu final : public pretended_gpu {
 public:
  stamping_gpu() : pretended_gpu(0, open_host_device()) {}
  std::atomic<int> stamps{0};
  std::atomic<bool> held{false};

  event_state query(native_event* e, std::uint64_t value) noexcept override {
    return held ? event_state::pending : pretended_gpu::query(e, value);
  }
  bool record_timestamp(native_timestamp* t, native_stream* s) noexcept override {
    ++stamps;
    return pretended_gpu::record_timestamp(t, s);
  }
};

class batch_launch : public ::testing::Test {
 protected:
  void SetUp() override {
    gpu_ = std::make_shared<stamping_gpu>();
    gpu_->watch = [this](pretended_gpu::call call) {
      if (call != pretended_gpu::call::record) return;
      records_.fetch_add(1);
      if (fails_record_.exchange(false)) throw error(errc::out_of_memory, "no event");
    };
    service_ = std::make_shared<device_service>(gpu_);
    lane_ = std::make_unique<lane>(service_);
    stream_ = runtime().create_stream();
  }
  void TearDown() override {
    lane_.reset();
    stream_ = stream();
    service_.reset();
  }

  [[nodiscard]] device_runtime& runtime() { return service_->runtime(); }
  [[nodiscard]] lane& test_lane() { return *lane_; }
  [[nodiscard]] const std::shared_ptr<device_service>& service() const { return service_; }
  [[nodiscard]] int records() const { return records_.load(); }
  void hold(bool held) { gpu_->held = held; }
  [[nodiscard]] int stamps() const { return gpu_->stamps.load(); }
  void trace(std::shared_ptr<kernel_trace> trace) { envelope_.trace(std::move(trace)); }
  void fail_next_record() { fails_record_ = true; }
  [[nodiscard]] bytes block(std::size_t count = 16) {
    return runtime().allocate<std::uint8_t>(count, stream_.ref(), "test");
  }
  std::vector<std::uint8_t> contents(const bytes& block) { return download(block, stream_.ref()); }
  /// Adds a launch that writes `written` and reads `read`.
  void add(const bytes& written, const bytes& read = {}, reply_on when = reply_on::finished) {
    add_reading(written, read ? std::vector{read} : std::vector<bytes>(), when);
  }
  void add_reading(const bytes& written, const std::vector<bytes>& read,
                   reply_on when = reply_on::finished) {
    closure_.blocks.push_back(written);
    operands uses;
    uses.add({written.block(), access_kind::write, written.bytes() == written.block().bytes()});
    for (const auto& one : read) uses.add({one.block(), access_kind::read, true});
    auto& box = boxes_.emplace_back();
    works().push_back(envelope_.prepare(test_lane(), std::move(uses), box.token(),
                                        static_cast<int>(works().size()),
                                        {.when = when, .is_batch = true}));
  }
  void launch() {
    detail::launch_continuation::run_batch(works_, test_lane(), envelope_.label(), 3, nullptr,
                                           closure_);
  }
  [[nodiscard]] filling& closure() { return closure_; }
  [[nodiscard]] std::vector<mailbox<int>>& boxes() { return boxes_; }
  [[nodiscard]] std::vector<std::unique_ptr<detail::launch_continuation>>& works() {
    return works_.launches;
  }
  void expect_filled(std::size_t i) {
    const auto& block = closure_.blocks[i];
    EXPECT_EQ(boxes_[i].value(), static_cast<int>(i));
    EXPECT_EQ(contents(block),
              std::vector<std::uint8_t>(block.size(), static_cast<std::uint8_t>(i + 1)));
  }
  void expect_rest() {
    await([&] { return test_lane().in_flight() == 0; });
    EXPECT_EQ(test_lane().batches(), 0U);
    EXPECT_FALSE(test_lane().full());
    EXPECT_EQ(runtime().statistics().leases, 0U);
  }

 private:
  std::atomic<int> records_{0};
  std::atomic<bool> fails_record_{false};
  std::shared_ptr<stamping_gpu> gpu_;
  std::shared_ptr<device_service> service_;
  std::unique_ptr<lane> lane_;
  stream stream_;
  kernel_envelope envelope_{{.library = "test", .operation = "fill"}};
  filling closure_;
  std::vector<mailbox<int>> boxes_;
  detail::batch_works works_;
};

TEST_F(batch_launch, records_one_event_for_all_members) {
  for (const std::size_t count : {2, 8, 64, 128, 300}) {
    closure().blocks.clear();
    boxes().clear();
    works().clear();
    for (std::size_t i = 0; i < count; ++i) add(block());
    const auto before = records();
    const auto calls = closure().calls_together;
    launch();
    EXPECT_EQ(records() - before, 1) << count;
    EXPECT_EQ(closure().calls_together - calls, 1) << count;
    for (std::size_t i = 0; i < count; ++i) expect_filled(i);
    expect_rest();
  }
}

/// Counts the launches that have completed before one of another lane.
class order_trace final : public kernel_trace {
 public:
  void after_complete(const kernel_info& info, const kernel_outcome&) override {
    if (info.operation == "other") {
      before_other = completed_;
    } else {
      ++completed_;
    }
  }
  std::atomic<int> before_other{-1};

 private:
  int completed_ = 0;  // only the completion thread
};

TEST_F(batch_launch, keeps_no_other_lane_waiting_for_all_its_replies) {
  const auto order = std::make_shared<order_trace>();
  trace(order);
  lane other(service());
  kernel_envelope other_envelope({.library = "test", .operation = "other"});
  other_envelope.trace(order);
  hold(true);
  for (int i = 0; i < 100; ++i) add(block());
  launch();
  mailbox<int> box;
  other_envelope.run(other, operands(), box.token(), 0, {}, [](const launch_context&) {});
  // Both have completed, but nobody can know.
  test_lane().stream().device().synchronize(test_lane().stream().native());
  other.stream().device().synchronize(other.stream().native());
  hold(false);
  EXPECT_EQ(box.value(), 0);
  for (std::size_t i = 0; i < 100; ++i) expect_filled(i);
  EXPECT_LE(order->before_other, 32);
}

TEST_F(batch_launch, records_two_timestamps_for_all_members) {
  const auto traced = std::make_shared<timing_trace>();
  trace(traced);
  for (std::size_t batch = 1; batch <= 3; ++batch) {
    const std::size_t count = 100;
    closure().blocks.clear();
    boxes().clear();
    works().clear();
    for (std::size_t i = 0; i < count; ++i) add(block());
    launch();
    for (std::size_t i = 0; i < count; ++i) expect_filled(i);
    const auto all = traced->wait(batch * count);
    EXPECT_EQ(stamps(), static_cast<int>(2 * batch));
    for (std::size_t i = (batch - 1) * count; i < all.size(); ++i) {
      const auto& times = all[i].times;
      ASSERT_TRUE(times.begun && times.ended) << i;
      EXPECT_LE(times.enqueued, *times.begun);
      EXPECT_LE(*times.begun, *times.ended);
      EXPECT_LE(*times.ended, times.detected);
      // The stamps of this batch, and not those of an earlier one with the same pair.
      EXPECT_GE(*times.ended, all[(batch - 1) * count].times.enqueued);
      EXPECT_LE(*times.ended - *times.begun, times.detected - times.enqueued);
    }
    expect_rest();
  }
}

TEST_F(batch_launch, counts_as_one_until_it_has_completed) {
  gate closed;
  closed.hold(test_lane().stream());
  for (int i = 0; i < 100; ++i) add(block());
  launch();
  EXPECT_EQ(test_lane().in_flight(), 100U);
  EXPECT_EQ(test_lane().batches(), 1U);
  EXPECT_FALSE(test_lane().full(797));
  EXPECT_TRUE(test_lane().full(798)) << "three commands are in flight";
  for (const auto& box : boxes()) EXPECT_EQ(box.count(), 0U);
  closed.open();
  for (std::size_t i = 0; i < 100; ++i) expect_filled(i);
  expect_rest();
}

TEST_F(batch_launch, orders_each_member_before_later_launches) {
  gate closed;
  closed.hold(test_lane().stream());
  for (int i = 0; i < 20; ++i) add(block());
  launch();
  // Another stream reads what a member in the middle writes, without any reply in between.
  const auto other = runtime().create_stream();
  const auto copy = block();
  {
    auto recorder = launch_recorder::strict(other.ref());
    recorder.read(closure().blocks[7]).write(copy);
    recorder.preflight();
    other.ref().device().copy(copy.data(), closure().blocks[7].data(), copy.bytes(),
                              copy_direction::device_to_device, other.ref().native());
    recorder.commit();
  }
  closed.open();
  EXPECT_EQ(contents(copy), std::vector<std::uint8_t>(copy.size(), 8));
  for (std::size_t i = 0; i < 20; ++i) expect_filled(i);
}

TEST_F(batch_launch, writes_parts_of_one_block) {
  const auto whole = block(160);
  for (std::size_t i = 0; i < 10; ++i) add(whole.subspan(16 * i, 16));
  launch();
  for (std::size_t i = 0; i < 10; ++i) expect_filled(i);
  expect_rest();
}

TEST_F(batch_launch, answers_early_where_asked) {
  gate closed;
  closed.hold(test_lane().stream());
  add(block());
  add(block(), {}, reply_on::enqueued);
  add(block());
  launch();
  EXPECT_EQ(boxes()[0].count(), 0U);
  EXPECT_EQ(boxes()[1].count(), 1U);
  EXPECT_EQ(boxes()[2].count(), 0U);
  closed.open();
  for (std::size_t i = 0; i < 3; ++i) expect_filled(i);
}

TEST_F(batch_launch, fails_as_a_whole_if_its_call_fails) {
  const auto later = block();
  for (int i = 0; i < 5; ++i) add(block());
  closure().before_all = [] {
    throw error(errc::library_failure, "refused by the test");
  };
  launch();
  for (const auto& box : boxes()) EXPECT_EQ(box.failure(), errc::library_failure);
  expect_rest();
  // The outputs count as failed.
  const auto other = runtime().create_stream();
  auto recorder = launch_recorder::strict(other.ref());
  recorder.read(closure().blocks[3]).write(later);
  EXPECT_TRUE(throws(errc::upstream_failed, "", [&] { recorder.preflight(); }));
}

TEST_F(batch_launch, is_made_one_by_one_if_nothing_was_enqueued) {
  for (int i = 0; i < 6; ++i) add(block());
  closure().before_all = [] {
    throw nothing_enqueued(error(errc::unsupported, "not together"));
  };
  closure().before_one = [](std::size_t index) {
    if (index == 2) throw nothing_enqueued(error(errc::unsupported, "not alone either"));
    if (index == 4) throw error(errc::library_failure, "failed by the test");
  };
  launch();
  EXPECT_EQ(boxes()[2].failure(), errc::unsupported);
  EXPECT_EQ(boxes()[4].failure(), errc::library_failure);
  for (const std::size_t i : {0, 1, 3, 5}) expect_filled(i);
  expect_rest();
  EXPECT_EQ(contents(closure().blocks[2]).size(), 16U) << "it has not failed";
}

TEST_F(batch_launch, whose_event_cannot_be_recorded_has_ended_before_its_answers) {
  for (int i = 0; i < 4; ++i) add(block());
  fail_next_record();
  launch();
  for (const auto& box : boxes()) EXPECT_EQ(box.failure(), errc::out_of_memory);
  // The work has been waited for, so memory that is freed now is not written any more.
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(contents(closure().blocks[i]),
              std::vector<std::uint8_t>(16, static_cast<std::uint8_t>(i + 1)));
  }
  expect_rest();
}

TEST_F(batch_launch, leaves_members_out_that_preflight_refuses) {
  for (int i = 0; i < 6; ++i) add(block());
  const auto read = block();
  closure().blocks.reserve(8);
  add(block(), read);
  runtime().deallocate(closure().blocks[1].block());
  runtime().deallocate(read.block());
  launch();
  EXPECT_EQ(boxes()[1].failure(), errc::stale_ref);
  EXPECT_EQ(boxes()[6].failure(), errc::stale_ref);
  for (const std::size_t i : {0, 2, 3, 4, 5}) expect_filled(i);
  EXPECT_EQ(closure().calls_together, 1);
  expect_rest();
}

TEST_F(batch_launch, fails_members_that_depend_on_a_failed_launch) {
  // A launch on another stream fails, which is not known when the batch is preflighted.
  const auto other = runtime().create_stream();
  const auto written = block();
  gate closed;
  closed.hold(other.ref());
  {
    auto recorder = launch_recorder::strict(other.ref());
    recorder.write(written);
    recorder.preflight();
    recorder.commit(error(errc::library_failure, "failed by the test"));
  }
  add(block());
  add(block(), written);
  add(block());
  launch();
  closed.open();
  for (const std::size_t i : {0, 2}) expect_filled(i);
  EXPECT_EQ(boxes()[1].failure(), errc::upstream_failed);
  expect_rest();
}

// A member has as many dependencies as it has blocks that unfinished launches write.
TEST_F(batch_launch, fails_the_member_that_depends_on_one_of_many_launches_that_fails) {
  constexpr std::size_t count = detail::joint_launches::max_uses - 1;
  constexpr std::size_t members = 4;
  for (std::size_t failing = 0; failing <= count; ++failing) {
    closure().blocks.clear();
    boxes().clear();
    const auto other = runtime().create_stream();
    gate closed;
    closed.hold(other.ref());
    for (std::size_t member = 0; member < members; ++member) {
      std::vector<bytes> read;
      for (std::size_t i = 0; i < count; ++i) {
        read.push_back(block());
        const bool fails = member == 2 && i == failing;
        auto recorder = launch_recorder::strict(other.ref());
        recorder.write(read.back());
        recorder.preflight();
        recorder.commit(fails ? std::optional(error(errc::library_failure, "failed by the test"))
                              : std::nullopt);
      }
      add_reading(block(), read);
    }
    const auto calls = closure().calls_together;
    launch();
    EXPECT_EQ(closure().calls_together, calls + 1);
    closed.open();
    for (std::size_t member = 0; member < members; ++member) {
      if (member == 2 && failing < count) {
        EXPECT_EQ(boxes()[member].failure(), errc::upstream_failed) << failing;
      } else {
        expect_filled(member);
      }
    }
    expect_rest();
  }
}

// What one launch has written is one dependency, and what the batch itself writes is another.
TEST_F(batch_launch, depends_once_on_a_launch_that_has_written_all_it_reads) {
  constexpr std::size_t count = detail::joint_launches::max_uses - 1;
  for (const bool fails : {false, true}) {
    closure().blocks.clear();
    boxes().clear();
    const auto other = runtime().create_stream();
    gate closed;
    closed.hold(other.ref());
    std::vector<bytes> read;
    {
      auto recorder = launch_recorder::strict(other.ref());
      for (std::size_t i = 0; i < count; ++i) recorder.write(read.emplace_back(block()));
      recorder.preflight();
      recorder.commit(fails ? std::optional(error(errc::library_failure, "failed by the test"))
                            : std::nullopt);
    }
    const auto whole = block(160);
    add_reading(block(), read);
    for (std::size_t i = 0; i < 3; ++i) add_reading(whole.subspan(16 * i, 16), read);
    add(block());
    launch();
    closed.open();
    for (std::size_t i = 0; i < 4; ++i) {
      if (fails) {
        EXPECT_EQ(boxes()[i].failure(), errc::upstream_failed);
      } else {
        expect_filled(i);
      }
    }
    expect_filled(4);
    expect_rest();
  }
}

}  // namespace
}  // namespace sluice::test
