// SPDX-License-Identifier: Apache-2.0
// Indices that are out of range fail the requests that have them, and no others: alone, in programs
// and their batches, as captured graphs, and on every device.
#include "runtime/seam.hpp"
#include "tests/operations/program/batched_programs.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"

#include <sluice/operations/bulk.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

constexpr auto fails = out_of_range_policy::error;
constexpr auto clamps = out_of_range_policy::clamp;

/// A table of some rows, and indices into them of which one may be out of range.
struct look_up {
  tensor table{};
  tensor indices{};
  std::optional<std::string> failure{};  ///< the text of the error, without the step
  std::vector<float> clamped{};          ///< the rows with clamped indices

  [[nodiscard]] gather operation(out_of_range_policy policy) const {
    return {.x = table, .indices = indices, .out_of_range = policy};
  }
};

class index_errors : public batched_programs {
 protected:
  static constexpr std::int64_t rows = 7;
  static constexpr std::int64_t columns = 3;
  static constexpr std::int64_t count = 11;

  [[nodiscard]] std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution(least, most)(random_);
  }
  tensor indices_of(const std::vector<std::int64_t>& values) {
    return tensor(upload(runtime(), stream(), values));
  }
  look_up any(bool is_bad) {
    look_up result;
    std::vector<std::int64_t> values(static_cast<std::size_t>(count));
    for (auto& value : values) value = between(-rows, rows - 1);
    if (is_bad) {
      const auto place = static_cast<std::size_t>(between(0, count - 1));
      const std::int64_t bad[] = {rows, -rows - 1, INT64_MAX, INT64_MIN, between(rows, 1000)};
      values[place] = bad[between(0, 4)];
      result.failure = "indices: " + std::to_string(values[place]) + " at offset " +
                       std::to_string(place) + " is out of range for the extent 7";
    }
    result.table = numbers({rows, columns});
    result.indices = indices_of(values);
    const auto table = this->values(result.table);
    for (const auto value : values) {
      const auto row = std::clamp<std::int64_t>(
          value < 0 ? std::max(value, -rows - 1) + rows : value, 0, rows - 1);
      for (std::int64_t i = 0; i < columns; ++i) {
        result.clamped.push_back(table[static_cast<std::size_t>(row * columns + i)]);
      }
    }
    return result;
  }
  std::vector<look_up> some(std::size_t number) {
    std::vector<look_up> all;
    for (std::size_t i = 0; i < number; ++i) all.push_back(any(between(0, 2) == 0));
    return all;
  }
  template <class Action>
  void expect_answer(const look_up& expected, const std::string& step, const Action& action) {
    if (expected.failure) {
      const auto found = error_of(action);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->code(), errc::invalid_argument);
      EXPECT_EQ(found->what(), step + *expected.failure);
    } else {
      EXPECT_EQ(values(action()), expected.clamped);
    }
  }
  /// A program of two steps, the second of which looks up rows.
  program looking_up(const program_options& options, bool batched = false) {
    program_builder p;
    const auto table = p.input("table");
    const auto indices = batched ? p.input("indices", per_request) : p.input("indices");
    const auto twice = p.add("twice", add(table, table));
    const auto found = p.add("rows", gather{.x = twice, .indices = indices, .out_of_range = fails});
    const auto halves = p.add("halves", multiply(found, found));
    return std::move(p).build({halves}, options);
  }
  std::vector<float> quadruple_squares(std::vector<float> values) {
    for (auto& value : values) value = (value + value) * (value + value);
    return values;
  }
  [[nodiscard]] detail::error_words& words() {
    return detail::runtime_core::of(runtime())->errors();
  }
  /// All words come back once the launches have completed.
  void expect_all_unused() {
    await([&] {
      detail::timeline::of(test_executor().lane().stream())->advance();
      detail::timeline::of(traced().lane().stream())->advance();
      return words().unused() == words().size();
    });
  }
  [[nodiscard]] bool on_host() { return runtime().device().id().kind == device_kind::host; }
  [[nodiscard]] std::mt19937_64& random() { return random_; }

 private:
  std::mt19937_64 random_ = make_generator();
};

TEST_P(index_errors, fail_a_request_or_not_as_it_asks) {
  for (int round = 0; round < 20; ++round) {
    const auto bad = any(true);
    const auto good = any(false);
    expect_answer(bad, "", [&] { return alone(bad.operation(fails)); });
    expect_answer(good, "", [&] { return alone(good.operation(fails)); });
    EXPECT_EQ(values(alone(bad.operation(clamps))), bad.clamped);
    const auto usual = bad.operation(out_of_range_policy::usual);
    if (on_host()) {
      expect_answer(bad, "", [&] { return alone(usual); });
    } else {
      EXPECT_EQ(values(alone(usual)), bad.clamped);
    }
  }
  EXPECT_TRUE(throws(errc::invalid_argument, "out_of_range: 3", [&] {
    return alone(any(false).operation(static_cast<out_of_range_policy>(3)));
  }));
  EXPECT_EQ(words().size(), on_host() ? 64U : 128U);  // a lane of a GPU has its words in advance
  expect_all_unused();
}

TEST_P(index_errors, name_the_argument_of_every_operation) {
  const auto x = numbers({4, 5});
  const auto updates = numbers({3, 5});
  const auto row = indices_of({0, 9, 1});
  const auto expect_text = [&](const char* text, auto operation) {
    EXPECT_TRUE(throws(errc::invalid_argument, text, [&] { return alone(operation); }));
    operation.out_of_range = clamps;
    EXPECT_EQ(alone(operation).type(), element_type::f32);
  };
  const auto* const of_rows = "indices: 9 at offset 1 is out of range for the extent 4";
  expect_text(of_rows, gather{.x = x, .indices = row, .out_of_range = fails});
  expect_text(of_rows,
              gather_elements{.x = x, .indices = row.reshape({3, 1}), .out_of_range = fails});
  expect_text(of_rows, gather_nd{.x = x, .indices = row.reshape({3, 1}), .out_of_range = fails});
  expect_text(
      "indices: -6 at offset 3 is out of range for the extent 5",
      gather_nd{
          .x = x, .indices = indices_of({3, 4, 0, -6}).reshape({2, 2}), .out_of_range = fails});
  for (const bool deterministic : {false, true}) {
    for (const auto combine : {scatter_combine::set, scatter_combine::add}) {
      expect_text(of_rows, scatter_elements{.x = x,
                                            .indices = row.reshape({3, 1}),
                                            .updates = updates.slice(1, 0, 1),
                                            .combine = combine,
                                            .deterministic = deterministic,
                                            .out_of_range = fails});
      expect_text(of_rows, scatter_nd{.x = x,
                                      .indices = row.reshape({3, 1}),
                                      .updates = updates,
                                      .combine = combine,
                                      .deterministic = deterministic,
                                      .out_of_range = fails});
    }
  }
  // Views: offsets are those in memory.
  const auto wide = indices_of({0, 50, 1, 50, -5, 50}).reshape({3, 2}).select(1, 0);
  expect_text("indices: -5 at offset 4 is out of range for the extent 4",
              gather{.x = x, .indices = wide, .out_of_range = fails});
  const auto image = numbers({2, 1, 4, 4});
  const auto regions = numbers({3, 4});
  expect_text("batch_indices: -1 at offset 2 is out of range for the extent 2",
              roi_align{.x = image,
                        .rois = regions,
                        .batch_indices = indices_of({0, 1, -1}),
                        .out_of_range = fails});
  expect_all_unused();
}

TEST_P(index_errors, of_requests_in_flight_fail_each_of_them_alone) {
  const auto all = some(150);
  std::vector<pending_answer> answers;
  for (const auto& one : all) {
    answers.push_back(submit(test_executor(), one.operation(fails)));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    expect_answer(all[i], "", [&] { return wait(answers[i]); });
  }
  expect_all_unused();
}

TEST_P(index_errors, fail_what_uses_the_results) {
  const auto bad = any(true);
  const auto good = any(false);
  const auto enqueued = request_options{.reply = reply_on::enqueued};
  gate closed;
  (void)alone(add(good.table, good.table));
  (void)alone(good.operation(fails));
  closed.hold(test_executor().lane().stream());
  const auto rows_of_bad = run(test_executor(), bad.operation(fails), enqueued);
  const auto rows_of_good = run(test_executor(), good.operation(fails), enqueued);
  auto sum_of_bad = submit(test_executor(), add(rows_of_bad, rows_of_bad));
  auto sum_of_good = submit(test_executor(), add(rows_of_good, rows_of_good));
  closed.open();
  EXPECT_TRUE(throws(errc::upstream_failed, "indices: ", [&] { return wait(sum_of_bad); }));
  EXPECT_EQ(wait(sum_of_good).size(), static_cast<std::size_t>(count * columns));
  EXPECT_TRUE(
      throws(errc::upstream_failed, "", [&] { return alone(add(rows_of_bad, rows_of_bad)); }));
  // A write of all of it clears the failure.
  (void)alone(gather{.x = good.table, .indices = good.indices, .y = rows_of_bad});
  EXPECT_EQ(values(rows_of_bad), good.clamped);
}

TEST_P(index_errors, in_a_program_name_the_step) {
  for (const auto capture :
       {capture_policy::never, capture_policy::automatic, capture_policy::at_prepare}) {
    const auto what = looking_up({.capture = capture});
    const auto all = some(40);
    if (capture == capture_policy::at_prepare) {
      const auto known =
          prepare_of({.what = what,
                      .inputs = {tensor_spec::of(all[0].table), tensor_spec::of(all[0].indices)}});
      EXPECT_EQ(known.captured, !on_host()) << known.not_captured;
    }
    std::vector<pending<tensors>> answers;
    for (const auto& one : all) {
      answers.push_back(submit(test_executor(), sluice::run{what, {one.table, one.indices}}));
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto expected = all[i];
      expected.clamped = quadruple_squares(expected.clamped);
      expect_answer(expected, "step 'rows': ", [&] { return wait(answers[i])[0]; });
    }
  }
  expect_all_unused();
}

TEST_P(index_errors, of_a_step_that_clamps_are_none) {
  program_builder p;
  const auto table = p.input("table");
  const auto first = p.input("first");
  const auto second = p.input("second");
  const auto a = p.add("a", gather{.x = table, .indices = first, .out_of_range = clamps});
  const auto b = p.add("b", gather{.x = table, .indices = second, .out_of_range = fails});
  const auto what = std::move(p).build({p.add("sum", add(a, b))});
  const auto bad = any(true);
  const auto good = indices_of(std::vector<std::int64_t>(static_cast<std::size_t>(count), 2));
  EXPECT_EQ(results_of({what, {bad.table, bad.indices, good}})[0].size(),
            static_cast<std::size_t>(count * columns));
  EXPECT_TRUE(throws(errc::invalid_argument, "step 'b': " + *bad.failure, [&] {
    return results_of({what, {bad.table, good, bad.indices}});
  }));
}

TEST_P(index_errors, in_a_batch_of_programs_fail_single_members) {
  const auto what = looking_up({.max_in_batch = 16}, true);
  const auto table = numbers({rows, columns});
  for (int round = 0; round < 3; ++round) {
    auto all = some(12);
    std::vector<sluice::run> runs;
    for (auto& one : all) {
      one.table = table;
      runs.push_back({what, {table, one.indices}});
    }
    // Alone first, for the expected rows and texts.
    std::vector<std::optional<error>> failures;
    std::vector<std::vector<float>> expected;
    for (const auto& one : runs) {
      expected.emplace_back();
      failures.push_back(error_of([&] { expected.back() = values(run(traced(), one)[0]); }));
      ASSERT_EQ(failures.back().has_value(), all[expected.size() - 1].failure.has_value());
    }
    auto answers = submit_at_once(runs);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (failures[i]) {
        const auto found = error_of([&] { return answer_of(answers[i]); });
        ASSERT_TRUE(found);
        EXPECT_EQ(std::string(found->what()), failures[i]->what());
      } else {
        EXPECT_EQ(values(answer_of(answers[i])[0]), expected[i]);
      }
    }
    // A GPU launches them one by one.
    if (on_host()) {
      EXPECT_EQ(launches(), (sizes{12}));
    }
  }
  expect_all_unused();
}

TEST_P(index_errors, in_a_bulk_are_those_of_single_operations) {
  const auto all = some(30);
  bulk many;
  for (const auto& one : all) many.add(one.operation(fails));
  pending<bulk_results> answer(waking_alarm());
  test_executor().submit(std::move(many), {}, answer.token(), {});
  const auto results = wait(answer).results;
  ASSERT_EQ(results.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    expect_answer(all[i], "", [&] {
      if (results[i].failure) throw *results[i].failure;
      return results[i].value;
    });
  }
}

TEST_P(index_errors, of_several_lanes_do_not_mix) {
  const auto second = make_executor();
  const auto third = make_executor();
  executor* const lanes[] = {&test_executor(), second.get(), third.get()};
  const auto all = some(150);
  std::vector<pending_answer> answers;
  for (std::size_t i = 0; i < all.size(); ++i) {
    answers.push_back(submit(*lanes[i % 3], all[i].operation(fails)));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    expect_answer(all[i], "", [&] { return wait(*lanes[i % 3], answers[i]); });
  }
}

TEST_P(index_errors, of_a_cancelled_request_are_not_its_answer) {
  const auto bad = any(true);
  (void)alone(bad.operation(clamps));
  const auto lane = test_executor().lane().stream();
  auto* const line = detail::timeline::of(lane);
  pending_answer cancelled = [&] {
    gate closed;
    closed.hold(lane);
    auto answer = submit(test_executor(), bad.operation(fails), {.id = 5});
    test_executor().work();
    test_executor().cancel({}, 5);
    EXPECT_TRUE(throws(errc::cancelled, "", [&] { return wait(answer); }));
    return answer;
  }();
  const auto ticket = line->newest().ticket;
  line->wait_until(ticket);
  expect_all_unused();
}

TEST_P(index_errors, of_the_last_launches_end_with_the_lane) {
  const auto all = some(20);
  auto last = make_executor();
  std::vector<pending_answer> answers;
  {
    gate closed;
    closed.hold(last->lane().stream());
    for (const auto& one : all) answers.push_back(submit(*last, one.operation(fails)));
    last->work();
    last.reset();
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    await([&] { return answers[i].answered(); });
    // Those that waited in front of the lane are cancelled.
    const auto found = error_of([&] { return answers[i].get(); });
    if (found && found->code() == errc::cancelled) continue;
    EXPECT_EQ(found.has_value(), all[i].failure.has_value());
  }
}

TEST_P(index_errors, need_no_memory_of_the_driver_for_a_second_request) {
  const auto good = any(false);
  (void)alone(good.operation(fails));
  const auto size = words().size();
  const auto all = some(40);
  for (const auto& one : all) (void)error_of([&] { return alone(one.operation(fails)); });
  EXPECT_EQ(words().size(), size);
}

TEST_P(index_errors, of_a_launch_that_fails_otherwise_are_not_told) {
  if (!on_host()) GTEST_SKIP() << "no launch of a GPU fails alone";
  const auto bad = any(true);
  (void)alone(bad.operation(clamps));
  faults().fail_nth(fault_target::launch, 1);
  const auto found = error_of([&] { return alone(bad.operation(fails)); });
  ASSERT_TRUE(found);
  EXPECT_NE(found->code(), errc::invalid_argument) << found->what();
  expect_all_unused();
  expect_answer(bad, "", [&] { return alone(bad.operation(fails)); });
}

INSTANTIATE_TEST_SUITE_P(devices, index_errors, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
