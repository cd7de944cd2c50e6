// SPDX-License-Identifier: Apache-2.0
// Copies within a runtime and between runtimes: on one device, between GPUs, and between a GPU and
// a host device.
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/copy_side.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/small_launches.hpp"

#include <sluice/runtime/copy.hpp>
#include <sluice/runtime/dlpack.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/host_task.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

struct ends {
  std::string source;
  std::string target;
  bool one_runtime = false;
};

std::string name_of(const ends& e) {
  auto name = e.source + "_to_" + e.target + (e.one_runtime ? "_in_one_runtime" : "");
  std::ranges::replace(name, ':', '_');
  return name;
}

class copies : public ::testing::TestWithParam<ends> {
 protected:
  void SetUp() override {
    for (const auto& name : {GetParam().source, GetParam().target}) {
      if (!has_device(name)) GTEST_SKIP() << "this machine has no device '" << name << "'";
    }
    source_side_ = std::make_unique<side>(GetParam().source);
    if (!GetParam().one_runtime) target_side_ = std::make_unique<side>(GetParam().target);
  }
  void TearDown() override {
    if (!source_side_) return;
    for (const auto* s : {&source_side(), &target_side()}) {
      s->stream.synchronize();
      s->other.synchronize();
      // Another thread returns imports.
      await([&] { return s->runtime->bytes_outstanding() == 0; });
      EXPECT_EQ(s->runtime->statistics().leases, 0u);
      EXPECT_EQ(s->runtime->statistics().recorders_abandoned, 0u);
    }
  }
  [[nodiscard]] side& source_side() const { return *source_side_; }
  [[nodiscard]] side& target_side() const { return target_side_ ? *target_side_ : *source_side_; }
  timeline_point copy(const words& target, const words& source) const {
    return enqueue_copy(target, target_side().stream, source, source_side().stream);
  }
  [[nodiscard]] values draw(std::size_t count) {
    return random_values<std::uint32_t>(random_, count);
  }
  [[nodiscard]] std::size_t number(std::size_t first, std::size_t last) {
    return first + random_() % (last - first + 1);
  }

 private:
  std::mt19937_64 random_ = make_generator();
  std::unique_ptr<side> source_side_;
  std::unique_ptr<side> target_side_;
};
INSTANTIATE_TEST_SUITE_P(ends, copies,
                         ::testing::Values(ends{"host", "host", true}, ends{"host", "host"},
                                           ends{"cuda", "cuda", true}, ends{"cuda", "cuda"},
                                           ends{"host", "cuda"}, ends{"cuda", "host"},
                                           ends{"cuda:0", "cuda:1"}),
                         [](const auto& parameter) { return name_of(parameter.param); });

TEST_P(copies, carry_every_element) {
  for (int round = 0; round < 40; ++round) {
    const auto count = round == 0 ? 0 : number(1, round % 8 == 7 ? 300'000 : 3000);
    const auto expected = draw(count);
    const auto target = target_side().allocate(count);
    const auto point = copy(target, source_side().holding(expected));
    EXPECT_EQ(point.stream, target_side().stream.id());
    ASSERT_EQ(download(target, target_side().other), expected);
  }
}

TEST_P(copies, of_parts_leave_the_rest_alone) {
  for (int round = 0; round < 20; ++round) {
    const auto size = number(10, 2000);
    const auto count = number(1, size);
    const auto first = number(0, size - count);
    const auto offset = number(0, size - count);
    const auto in = draw(size);
    auto expected = draw(size);
    const auto target = target_side().holding(expected);
    (void)copy(target.subspan(offset, count), source_side().holding(in).subspan(first, count));
    std::copy_n(in.begin() + static_cast<std::ptrdiff_t>(first), count,
                expected.begin() + static_cast<std::ptrdiff_t>(offset));
    ASSERT_EQ(download(target, target_side().other), expected);
  }
}

TEST_P(copies, come_after_earlier_writes_and_before_later_ones) {
  const std::size_t count = number(1000, 5000);
  const auto source = source_side().holding(values(count, 1));
  const auto target = target_side().holding(values(count, 2));
  gate closed;
  closed.hold(source_side().other);
  (void)launch_fill(source, 3, source_side().other);  // has not run
  const auto point = copy(target, source);
  EXPECT_FALSE(target_side().done(point));
  (void)launch_fill(source, 4, source_side().other);  // the copy must not read this value
  const auto later = target_side().allocate(count);
  (void)enqueue_copy(later, target_side().other, target, target_side().other);  // reads the copy
  closed.open();
  EXPECT_EQ(download(later, target_side().other), values(count, 3));
  EXPECT_EQ(download(source, source_side().stream), values(count, 4));
}

TEST_P(copies, wait_for_earlier_uses_of_the_target) {
  const std::size_t count = number(1000, 5000);
  const auto source = source_side().holding(values(count, 1));
  const auto target = target_side().holding(values(count, 2));
  const auto kept = target_side().allocate(count);
  gate closed;
  closed.hold(target_side().other);
  (void)enqueue_copy(kept, target_side().other, target,
                     target_side().other);  // reads it, and has not run
  const auto point = copy(target, source);
  EXPECT_FALSE(target_side().done(point));
  closed.open();
  EXPECT_EQ(download(target, target_side().stream), values(count, 1));
  EXPECT_EQ(download(kept, target_side().stream), values(count, 2));
}

TEST_P(copies, keep_what_they_touch) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("it frees behind a gate");
  const std::size_t count = number(1000, 5000);
  const auto kept = target_side().allocate(count);
  gate closed;
  {
    const auto source = source_side().holding(values(count, 9));
    const auto target = target_side().allocate(count);
    closed.hold(source_side().stream);
    (void)copy(target, source);
    (void)enqueue_copy(kept, target_side().other, target, target_side().other);
  }
  const auto again = source_side().holding(values(0));
  const auto other =
      source_side().runtime->allocate<std::uint32_t>(count, source_side().other, "other");
  (void)launch_fill(other, 5, source_side().other);
  closed.open();
  EXPECT_EQ(download(kept, target_side().other), values(count, 9));
}

TEST_P(copies, of_several_threads_do_not_wait_for_each_other_for_ever) {
  constexpr int threads = 4;
  const auto a = source_side().holding(values(500, 0));
  const auto b = target_side().holding(values(500, 0));
  std::vector<std::thread> clients;
  for (int t = 0; t < threads; ++t) {
    clients.emplace_back([&, t] {
      const auto here = source_side().runtime->create_stream();
      const auto there = target_side().runtime->create_stream();
      for (int i = 0; i < 25; ++i) {
        if (t % 2 == 0) {
          (void)enqueue_copy(b, there, a, here);
        } else {
          (void)enqueue_copy(a, here, b, there);
        }
      }
      here.synchronize();
      there.synchronize();
    });
  }
  for (auto& client : clients) client.join();
  EXPECT_EQ(download(a, source_side().stream), values(500, 0));
  EXPECT_EQ(download(b, target_side().stream), values(500, 0));
}

TEST_P(copies, refuse_what_does_not_fit) {
  const auto a = source_side().holding(values(10, 1));
  const auto b = target_side().holding(values(10, 2));
  EXPECT_TRUE(throws(errc::invalid_argument, "target has 10 elements, but source has 9",
                     [&] { (void)copy(b, a.subspan(0, 9)); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "target: the reference is empty",
                     [&] { (void)copy({}, words{}); }));
  EXPECT_TRUE(throws(errc::stream_misuse,
                     "stream: no stream was given; must be a stream of the runtime of target",
                     [&] { (void)enqueue_copy(b, {}, a, source_side().stream); }));
  const side stranger("host");
  EXPECT_TRUE(throws(errc::stream_misuse, "stream: not a stream",
                     [&] { (void)enqueue_copy(b, stranger.stream, a, source_side().stream); }));
  if (GetParam().one_runtime) {
    EXPECT_TRUE(throws(errc::invalid_argument, "target and source overlap",
                       [&] { (void)copy(a.subspan(0, 5), a.subspan(4, 5)); }));
    (void)copy(a.subspan(0, 5), a.subspan(5, 5));
    const auto again = import_dlpack(*source_side().runtime,
                                     export_dlpack(*source_side().runtime, a), {.ready = true});
    const auto same = again.as<std::uint32_t>();
    EXPECT_TRUE(throws(errc::invalid_argument, "target and source overlap",
                       [&] { (void)copy(a.subspan(0, 5), same.subspan(4, 5)); }));
  } else {
    EXPECT_TRUE(
        throws(errc::stream_misuse,
               "source_stream: no stream was given; must be a stream of the runtime of source",
               [&] { (void)enqueue_copy(b, target_side().stream, a); }));
    EXPECT_TRUE(throws(errc::stream_misuse, "source_stream: not a stream",
                       [&] { (void)enqueue_copy(b, target_side().stream, a, stranger.stream); }));
  }
  source_side().runtime->deallocate(a.block());
  EXPECT_TRUE(throws(errc::stale_ref, "", [&] { (void)copy(b, a); }));
  const auto c = source_side().holding(values(10, 1));
  target_side().runtime->deallocate(b.block());
  EXPECT_TRUE(throws(errc::stale_ref, "", [&] { (void)copy(b, c); }));
}

// A failure on a host device fails the copy on any device.
TEST_P(copies, of_what_failed_fail) {
  if (GetParam().source != "host") GTEST_SKIP() << "launches fail on host devices only";
  const auto source = source_side().allocate(100);
  const auto target = target_side().holding(values(100, 2));
  const auto after = target_side().allocate(100);
  gate closed;
  closed.hold(source_side().other);
  auto recorder = begin_write(source, source_side().other);
  submit_host_task(source_side().other,
                   [] { throw error(errc::library_failure, "for this test"); });
  (void)recorder.commit();
  // Queued before the failure is known.
  const auto point = copy(target, source);
  const auto next = enqueue_copy(after, target_side().other, target, target_side().other);
  closed.open();
  await([&] { return target_side().done(point) && target_side().done(next); });
  auto* t = detail::runtime_core::of(*target_side().runtime)->find(point.stream);
  const auto why = t->failure_of(point.ticket);
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code(), errc::upstream_failed);
  EXPECT_NE(std::string(why->what()).find("for this test"), std::string::npos) << why->what();
  EXPECT_TRUE(
      detail::runtime_core::of(*target_side().runtime)->find(next.stream)->failure_of(next.ticket));
  EXPECT_TRUE(throws(errc::upstream_failed, "for this test", [&] {
    (void)enqueue_copy(after, target_side().other, target, target_side().other);
  }));
  EXPECT_TRUE(throws(errc::upstream_failed, "for this test", [&] { (void)copy(target, source); }));
  // A write of the whole block clears the failure.
  (void)launch_fill(target, 6, target_side().stream);
  EXPECT_EQ(download(target, target_side().other), values(100, 6));
}

TEST_P(copies, fail_when_the_device_of_the_source_is_lost) {
  if (GetParam().source != "host" || GetParam().one_runtime) {
    GTEST_SKIP() << "the loss of a host device that is not the target's";
  }
  const auto target = target_side().holding(values(100, 2));
  {
    side lost("host");
    const auto source = lost.holding(values(100, 1));
    gate closed;
    closed.hold(lost.stream);
    const auto point = enqueue_copy(target, target_side().stream, source, lost.stream);
    lost.runtime->device().lose(error(errc::device_lost, "for this test"));
    closed.open();
    await([&] { return target_side().done(point); });
    EXPECT_TRUE(detail::runtime_core::of(*target_side().runtime)
                    ->find(point.stream)
                    ->failure_of(point.ticket));
  }
  (void)launch_fill(target, 6, target_side().stream);
  EXPECT_EQ(download(target, target_side().other), values(100, 6));
}

// Over three runtimes

struct stations {
  std::string middle;
  std::string target;
};

/// Copies from a host device through two other runtimes.
class chains_of_copies : public ::testing::TestWithParam<stations> {
 protected:
  void SetUp() override {
    for (const auto& name : {GetParam().middle, GetParam().target}) {
      if (!name.starts_with("pretended:") && !has_device(name)) {
        GTEST_SKIP() << "this machine has no device '" << name << "'";
      }
    }
    first_ = std::make_unique<side>("host");
    middle_ = std::make_unique<side>(GetParam().middle);
    target_ = std::make_unique<side>(GetParam().target);
    source_ = first_->allocate(count);
    between_ = middle_->allocate(count);
    result_ = target_->allocate(count);
  }
  /// Queues a launch on the first device that has not run and will fail, and the copies of its
  /// output. Returns the point of the last copy.
  timeline_point queue_failing() {
    closed_.hold(first_->other);
    auto recorder = begin_write(source_, first_->other);
    submit_host_task(first_->other, [] { throw error(errc::library_failure, "for this test"); });
    (void)recorder.commit();
    (void)enqueue_copy(between_, middle_->stream, source_, first_->stream);
    return enqueue_copy(result_, target_->stream, between_, middle_->stream);
  }
  /// Queues a write in the middle runtime and its copy. The write has not run and may fail, because
  /// its data comes from a host device.
  timeline_point queue_unfinished() {
    closed_.hold(first_->other);
    (void)launch_fill(source_, 2, first_->other);
    (void)enqueue_copy(between_, middle_->other, source_, first_->stream);
    return enqueue_copy(result_, target_->stream, between_, middle_->stream);
  }
  static ::testing::AssertionResult failed(const side& s, timeline_point point,
                                           const std::string& why) {
    await([&] { return s.done(point); });
    const auto failure =
        detail::runtime_core::of(*s.runtime)->find(point.stream)->failure_of(point.ticket);
    if (!failure) return ::testing::AssertionFailure() << "it succeeded";
    if (failure->code() != errc::upstream_failed ||
        std::string(failure->what()).find(why) == std::string::npos) {
      return ::testing::AssertionFailure() << to_string(failure->code()) << failure->what();
    }
    return ::testing::AssertionSuccess();
  }

  static constexpr std::size_t count = 500;
  std::unique_ptr<side> first_;
  std::unique_ptr<side> middle_;
  std::unique_ptr<side> target_;
  words source_;
  words between_;
  words result_;
  gate closed_;
};
INSTANTIATE_TEST_SUITE_P(stations, chains_of_copies,
                         ::testing::Values(stations{"host", "host"},
                                           stations{"pretended:0", "pretended:1"},
                                           stations{"pretended:0", "host"},
                                           stations{"cuda", "cuda"}, stations{"cuda", "host"},
                                           stations{"cuda:0", "cuda:1"}),
                         [](const auto& parameter) {
                           return name_of({parameter.param.middle, parameter.param.target});
                         });

TEST_P(chains_of_copies, of_what_fails_late_fail_to_their_end) {
  const auto point = queue_failing();
  const auto after = target_->allocate(count);
  const auto next = enqueue_copy(after, target_->other, result_, target_->other);
  closed_.open();
  EXPECT_TRUE(failed(*target_, next, "for this test"));
  EXPECT_TRUE(failed(*target_, point, "for this test"));
  EXPECT_TRUE(throws(errc::upstream_failed, "for this test",
                     [&] { (void)enqueue_copy(after, target_->other, result_, target_->other); }));
  // A copy of newly written data clears the failure.
  (void)launch_fill(source_, 6, first_->stream);
  (void)enqueue_copy(between_, middle_->stream, source_, first_->stream);
  (void)enqueue_copy(result_, target_->stream, between_, middle_->stream);
  EXPECT_EQ(download(result_, target_->other), values(count, 6));
}

TEST_P(chains_of_copies, of_what_is_written_late_carry_it) {
  closed_.hold(first_->other);
  (void)launch_fill(source_, 7, first_->other);
  (void)enqueue_copy(between_, middle_->stream, source_, first_->stream);
  const auto point = enqueue_copy(result_, target_->stream, between_, middle_->stream);
  closed_.open();
  await([&] { return target_->done(point); });
  EXPECT_FALSE(detail::timeline::of(target_->stream.ref())->failure_of(point.ticket));
  EXPECT_EQ(download(result_, target_->other), values(count, 7));
}

TEST_P(chains_of_copies, fail_after_the_end_of_the_runtime_between) {
  const auto point = queue_failing();
  closed_.open();
  between_ = {};
  middle_.reset();
  EXPECT_TRUE(failed(*target_, point, "for this test"));
}

TEST_P(chains_of_copies, fail_when_the_device_between_is_lost) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("what a lost GPU held stays with it");
  if (GetParam().target == "host") GTEST_SKIP() << "the stream's thread waits for the ticket";
  const auto point = queue_unfinished();
  middle_->runtime->device().lose(error(errc::device_lost, "for this test"));
  closed_.open();
  EXPECT_TRUE(failed(*target_, point, "is lost"));
  (void)launch_fill(result_, 6, target_->stream);
  EXPECT_EQ(download(result_, target_->other), values(count, 6));
}

// Each runtime depends on a ticket of the other, and after the loss neither learns that the ticket
// has completed.
TEST_P(chains_of_copies, to_and_fro_do_not_keep_runtimes) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("what a lost GPU held stays with it");
  if (GetParam().target == "host") GTEST_SKIP() << "that is ordered by the streams' threads";
  (void)queue_unfinished();
  auto back = middle_->allocate(count);
  (void)enqueue_copy(back, middle_->stream, result_, target_->stream);
  const std::array<std::weak_ptr<detail::runtime_core>, 2> cores{
      detail::runtime_core::of(*middle_->runtime), detail::runtime_core::of(*target_->runtime)};
  const auto lost = error(errc::device_lost, "for this test");
  middle_->runtime->device().lose(lost);
  target_->runtime->device().lose(lost);
  closed_.open();
  back = between_ = result_ = {};
  middle_.reset();
  target_.reset();
  source_ = {};
  first_.reset();  // the last task of its stream keeps its target alive
  for (const auto& core : cores) EXPECT_TRUE(core.expired());
}

}  // namespace
}  // namespace sluice::test
