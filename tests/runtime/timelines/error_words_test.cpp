// SPDX-License-Identifier: Apache-2.0
// Errors that the work of a launch finds. On a host device each ticket is queried; a host device
// that presents itself as a GPU queries only tickets that may fail.
#include "runtime/timelines/error_words.hpp"

#include "runtime/seam.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/pretended_gpu.hpp"
#include "tests/support/small_launches.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

class numbered_names final : public detail::error_names {
 public:
  std::string name(std::uint32_t step, std::uint32_t operand) const override {
    return "step " + std::to_string(step) + ": operand " + std::to_string(operand);
  }
};

/// The parameter states whether the device presents itself as a GPU.
class error_words : public ::testing::TestWithParam<bool> {
 protected:
  using owner = detail::launch_errors_owner;

  void SetUp() override {
    std::shared_ptr<device> opened = open_host_device();
    if (GetParam()) opened = gpu_ = std::make_shared<pretended_gpu>(0, std::move(opened));
    runtime_ = std::make_unique<device_runtime>(std::move(opened));
    stream_ = runtime_->create_stream();
  }
  void TearDown() override {
    stream_ = sluice::stream();
    runtime_.reset();
  }

  [[nodiscard]] device_runtime& runtime() { return *runtime_; }
  [[nodiscard]] stream_ref stream() const { return stream_; }
  [[nodiscard]] detail::error_words& words() {
    return detail::runtime_core::of(*runtime_)->errors();
  }
  [[nodiscard]] gpu_ref<int> fresh() { return runtime_->allocate<int>(16, stream_, "vector"); }
  [[nodiscard]] owner take() { return {*runtime_, std::make_shared<numbered_names>()}; }

  /// Enqueues work that reports `indices`, in order.
  void enqueue(stream_ref stream, error_word* word, std::vector<std::int64_t> indices) {
    stream.device().notify(stream.native(), [word, indices = std::move(indices)] {
      const index_report report{word, 3, 1};
      for (const auto index : indices) report.report(index, 2 * index, 5);
    });
  }
  /// A launch that writes `ref` and finds that `indices` are out of range.
  timeline_point launch(const gpu_ref<int>& ref, std::vector<std::int64_t> indices) {
    auto errors = take();
    auto recorder = begin_write(ref, stream());
    detail::launch_dependencies::find_errors(recorder, errors);
    enqueue(stream(), errors.word(), std::move(indices));
    const auto point = recorder.commit();
    EXPECT_EQ(errors.get(), nullptr);
    return point;
  }
  [[nodiscard]] std::optional<error> outcome(timeline_point point) {
    auto* const line = detail::runtime_core::of(*runtime_)->find(point.stream);
    line->wait_until(point.ticket);
    return line->failure_of(point.ticket);
  }
  void expect_failure(timeline_point point, errc code, const std::string& text) {
    const auto found = outcome(point);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->code(), code);
    EXPECT_EQ(std::string(found->what()).substr(0, text.size()), text);
  }
  void expect_all_unused() { EXPECT_EQ(words().unused(), words().size()); }

 private:
  std::shared_ptr<pretended_gpu> gpu_;
  std::unique_ptr<device_runtime> runtime_;
  sluice::stream stream_;
};

constexpr const char* text_of_7 =
    "step 3: operand 1: 7 at offset 14 is out of range for the extent 5";

TEST_P(error_words, fail_the_ticket_of_their_launch_alone) {
  const auto x = fresh();
  const auto y = fresh();
  const auto before = launch(x, {});
  const auto failed = launch(y, {7, 8});
  const auto after = launch(x, {});
  expect_failure(failed, errc::invalid_argument, text_of_7);
  EXPECT_FALSE(outcome(before));
  EXPECT_FALSE(outcome(after));
  EXPECT_EQ(words().size(), 64U);
  expect_all_unused();
}

TEST_P(error_words, fail_what_depends_on_the_launch) {
  const auto x = fresh();
  const auto y = fresh();
  gate closed;
  closed.hold(stream());
  const auto failed = launch(x, {7});
  auto recorder = launch_recorder::strict(stream());
  recorder.read(x).write(y);
  recorder.preflight();
  const auto reader = recorder.commit();
  const auto other = launch(fresh(), {});
  closed.open();
  expect_failure(reader, errc::upstream_failed, "");
  expect_failure(failed, errc::invalid_argument, text_of_7);
  EXPECT_FALSE(outcome(other));
  EXPECT_TRUE(throws(errc::upstream_failed, "vector", [&] { (void)begin_read(x, stream()); }));
  (void)launch_fill(x, 1, stream());  // replaces every byte
  (void)begin_read(x, stream()).commit();
  stream().synchronize();
}

// What a launch finds in the results of a failed one is no error of its own.
TEST_P(error_words, give_way_to_the_failure_that_a_launch_depends_on) {
  const auto x = fresh();
  const auto y = fresh();
  gate closed;
  closed.hold(stream());
  (void)launch(x, {7});
  auto errors = take();
  auto recorder = launch_recorder::strict(stream());
  recorder.read(x).write(y);
  recorder.preflight();
  detail::launch_dependencies::find_errors(recorder, errors);
  enqueue(stream(), errors.word(), {9});
  const auto reader = recorder.commit();
  closed.open();
  expect_failure(reader, errc::upstream_failed, "");
  expect_all_unused();
}

TEST_P(error_words, are_those_of_single_members_of_a_batch) {
  constexpr std::size_t members = 9;
  std::vector<gpu_ref<int>> refs;
  std::vector<owner> owners;
  for (std::size_t i = 0; i < members; ++i) {
    refs.push_back(fresh());
    owners.push_back(i % 2 == 0 ? owner() : take());
  }
  auto recorder = launch_recorder::strict(stream());
  for (const auto& ref : refs) {
    detail::joint_launches::begin_next(recorder);
    recorder.write(ref);
  }
  recorder.preflight();
  for (std::size_t i = 0; i < members; ++i) {
    if (owners[i].get() != nullptr) detail::joint_launches::find_errors(recorder, i, owners[i]);
  }
  // One report in member 3, none in the others.
  enqueue(stream(), owners[3].word(), {7});
  std::vector<timeline_point> points;
  if (GetParam()) {
    const auto first = detail::joint_launches::submit_all(recorder, {});
    for (std::size_t i = 0; i < members; ++i) points.push_back({stream().id(), first + i});
  } else {
    for (std::size_t i = 0; i < members; ++i) {
      points.push_back({stream().id(), detail::joint_launches::submit(recorder, i, {})});
    }
  }
  detail::joint_launches::publish(recorder);
  for (std::size_t i = 0; i < members; ++i) {
    if (i == 3) {
      expect_failure(points[i], errc::invalid_argument, text_of_7);
    } else {
      EXPECT_FALSE(outcome(points[i])) << i;
    }
    EXPECT_EQ(owners[i].get(), nullptr);
  }
  expect_all_unused();
}

TEST_P(error_words, of_launches_that_enqueue_nothing_come_back) {
  {
    auto errors = take();
    const auto x = fresh();
    auto recorder = begin_write(x, stream());
    detail::launch_dependencies::find_errors(recorder, errors);
    recorder.cancel();
    EXPECT_NE(errors.get(), nullptr);
    EXPECT_EQ(words().unused() + 1, words().size());
  }
  expect_all_unused();
  // One of several launches under a recorder: it takes a ticket, but not with its word.
  auto errors = take();
  const auto x = fresh();
  const auto y = fresh();
  auto recorder = launch_recorder::strict(stream());
  detail::joint_launches::begin_next(recorder);
  recorder.write(x);
  detail::joint_launches::begin_next(recorder);
  recorder.write(y);
  recorder.preflight();
  detail::joint_launches::find_errors(recorder, 0, errors);
  detail::joint_launches::cancel(recorder, 0);
  (void)detail::joint_launches::submit(recorder, 1, {});
  detail::joint_launches::publish(recorder);
  EXPECT_NE(errors.get(), nullptr);
}

TEST_P(error_words, are_used_again) {
  const auto x = fresh();
  for (int i = 0; i < 300; ++i) {
    const auto point =
        launch(x, i % 3 == 0 ? std::vector<std::int64_t>{7} : std::vector<std::int64_t>{});
    ASSERT_EQ(outcome(point).has_value(), i % 3 == 0) << i;
  }
  EXPECT_EQ(words().size(), 64U);
  expect_all_unused();
}

TEST_P(error_words, are_made_when_all_are_in_use) {
  gate closed;
  closed.hold(stream());
  std::vector<timeline_point> points;
  for (int i = 0; i < 100; ++i) {
    points.push_back(
        launch(fresh(), i % 7 == 0 ? std::vector<std::int64_t>{7} : std::vector<std::int64_t>{}));
  }
  EXPECT_EQ(words().size(), 128U);
  closed.open();
  for (std::size_t i = 0; i < points.size(); ++i) {
    ASSERT_EQ(outcome(points[i]).has_value(), i % 7 == 0) << i;
  }
  expect_all_unused();
}

TEST_P(error_words, that_lanes_reserve_are_there_before_their_launches) {
  std::optional<detail::error_words_of_lane> first(std::in_place, runtime(), stream());
  EXPECT_EQ(words().size(), 128U);
  const detail::error_words_of_lane second(runtime(), stream());
  EXPECT_EQ(words().size(), 256U);
  first.reset();
  first.emplace(runtime(), stream());
  EXPECT_EQ(words().size(), 256U);
}

// Many threads report at once, and others take words meanwhile.
TEST_P(error_words, keep_one_report_of_several_threads) {
  const auto x = fresh();
  const auto y = fresh();
  const auto other_stream = runtime().create_stream();
  std::thread other([&] {
    for (int i = 0; i < 200; ++i) {
      auto errors = take();
      auto recorder = begin_write(y, other_stream);
      detail::launch_dependencies::find_errors(recorder, errors);
      enqueue(other_stream, errors.word(), {7});
      const auto point = recorder.commit();
      auto* const line = detail::timeline::of(other_stream);
      line->wait_until(point.ticket);
      EXPECT_TRUE(line->failure_of(point.ticket));
    }
  });
  for (int i = 0; i < 20; ++i) {
    auto errors = take();
    auto recorder = begin_write(x, stream());
    detail::launch_dependencies::find_errors(recorder, errors);
    stream().device().notify(stream().native(), [word = errors.word()] {
      std::vector<std::thread> threads;
      for (std::uint32_t t = 0; t < 4; ++t) {
        threads.emplace_back([word, t] {
          const index_report report{word, t, t};
          report.report(100 + t, t, 200 + t);
        });
      }
      for (auto& thread : threads) thread.join();
    });
    const auto found = outcome(recorder.commit());
    ASSERT_TRUE(found);
    std::set<std::string> possible;
    for (const auto* const t : {"0", "1", "2", "3"}) {
      const std::string digit(t);
      possible.insert("step " + digit + ": operand " + digit + ": 10" + digit + " at offset " +
                      digit + " is out of range for the extent 20" + digit);
    }
    EXPECT_TRUE(possible.contains(found->what())) << found->what();
  }
  other.join();
  expect_all_unused();
}

TEST_P(error_words, of_a_lost_device_stay) {
  gate closed;
  closed.hold(stream());
  (void)launch(fresh(), {7});
  {
    const auto errors = take();
    runtime().device().lose(error(errc::library_failure, "gone"));
  }
  EXPECT_EQ(words().unused() + 2, words().size());
  closed.open();
}

INSTANTIATE_TEST_SUITE_P(devices, error_words, ::testing::Bool(), [](const auto& test) {
  return test.param ? std::string("pretended_gpu") : std::string("host");
});

}  // namespace
}  // namespace sluice::test
