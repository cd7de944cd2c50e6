// SPDX-License-Identifier: Apache-2.0
// Runs of a program that are launched together, along other axes than 0 and with many tensors.
#include "tests/operations/program/batched_programs.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class batched_axes : public batched_programs {};

// One input and fifteen outputs, and the other way round. Runs of one more tensor are single.
TEST_P(batched_axes, have_up_to_16_tensors) {
  const auto compare = [&](const program& what, std::size_t inputs, bool together) {
    std::vector<sluice::run> runs;
    for (std::size_t i = 0; i < 4; ++i) {
      auto& one = runs.emplace_back(sluice::run{.what = what});
      for (std::size_t k = 0; k < inputs; ++k) {
        one.inputs.emplace_back(numbers({static_cast<std::int64_t>(k % 3 + 1), 2, 7}));
      }
    }
    auto answers = submit_together(runs);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      expect_equal(answer_of(answers[i]), results_of(runs[i]));
    }
    EXPECT_EQ(launches(), together ? sizes{4} : sizes(4, 1));
  };
  for (const int count : {15, 16}) {
    program_builder p;
    const auto x = p.input("x", per_request.along(1));
    std::vector<program_value> outputs;
    for (int i = 0; i < count; ++i) {
      outputs.push_back(i % 2 == 0 ? p.add(add(x, i)) : p.add(exp(x.permute({1, 0, 2}))));
    }
    compare(std::move(p).build(outputs, {.max_in_batch = 8}), 1, count == 15);
    program_builder q;
    std::vector<program_value> inputs;
    for (int i = 0; i < count; ++i) {
      inputs.push_back(q.input("x" + std::to_string(i), per_request.along(1)));
    }
    auto sum = q.add(reduce{.x = inputs[0], .axes = {0}});
    for (int i = 1; i < count; ++i) {
      const auto term = q.add(reduce{.x = inputs[static_cast<std::size_t>(i)], .axes = {0}});
      sum = q.add(add(sum, term));
    }
    compare(std::move(q).build({sum}, {.max_in_batch = 8}), inputs.size(), count == 15);
  }
}

// A run reads what fifteen launches have written, one of which has failed.
TEST_P(batched_axes, fail_with_any_of_the_launches_that_they_depend_on) {
  if (GetParam() != "host") GTEST_SKIP() << "single launches fail on the host device only";
  program_builder p;
  std::vector<program_value> inputs;
  for (int i = 0; i < 15; ++i) {
    inputs.push_back(p.input("x" + std::to_string(i), per_request.along(i % 2)));
  }
  auto sum = p.add(exp(inputs[0]));
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    sum = p.add(add(sum, i % 2 == 0 ? inputs[i] : inputs[i].transposed()));
  }
  const auto program = std::move(p).build({sum}, {.max_in_batch = 8});
  std::vector<sluice::run> runs;
  for (int i = 0; i < 4; ++i) {
    auto& one = runs.emplace_back(sluice::run{.what = program});
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      one.inputs.emplace_back(numbers(k % 2 == 0 ? extents{1, 3} : extents{3, 1}));
    }
  }
  for (auto& answer : submit_together(runs)) (void)answer_of(answer);
  EXPECT_EQ(launches(), sizes{4});
  for (std::size_t k = 0; k < inputs.size(); k += 3) {
    const auto& bad = runs[2].inputs[k].on_device();
    faults().fail_nth(fault_target::launch, 1);
    EXPECT_TRUE(throws(errc::library_failure, "",
                       [&] { (void)run(test_executor(), fill{.value = 1, .y = bad}); }));
    auto answers = submit_at_once(runs);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (i == 2) {
        EXPECT_TRUE(throws(errc::upstream_failed, "", [&] { (void)answer_of(answers[i]); }));
      } else {
        expect_equal(answer_of(answers[i]), results_of(runs[i]));
      }
    }
    (void)run(test_executor(), fill{.value = 1, .y = bad});
  }
}

// A recurrent state has the runs along another axis than the input.
TEST_P(batched_axes, lie_along_another_axis_in_each_input_and_output) {
  program_builder p;
  const auto x = p.input("x", per_request);
  const auto state = p.input("state", per_request.along(1));
  const auto last = p.input("last", per_request.along(2));
  const auto sums = p.add("sums", add(state, x.unsqueeze(0)));
  const auto means = p.add("means", reduce{.x = sums, .kind = reduction::mean, .axes = {0}});
  const auto turned = p.add("turned", strided_copy{.x = means.transposed()});
  const auto scores = p.add("scores", softmax{.x = last, .axis = 1});
  const auto what = std::move(p).build(
      {means, sums, turned, scores, p.add(strided_copy{.x = sums.permute({1, 0, 2})})},
      {.max_in_batch = 64});
  for (const std::size_t count : {2, 5, 11, 33}) {
    const std::int64_t rows = count == 5 ? 3 : 1;
    std::vector<sluice::run> runs;
    for (std::size_t i = 0; i < count; ++i) {
      runs.push_back(
          {.what = what,
           .inputs = {numbers({rows, 5}), numbers({2, rows, 5}), numbers({2, 3, rows})}});
      // Given outputs of some, which take another batch.
      if (i % 4 != 3) continue;
      for (const auto& result : results_of(runs.back())) {
        runs.back().outputs.emplace_back(numbers(result.shape()));
      }
    }
    std::vector<tensors> expected;
    for (auto& one : runs) expected.push_back(results_of({what, one.inputs}));
    auto answers = submit_together(runs);
    for (std::size_t i = 0; i < count; ++i) expect_equal(answer_of(answers[i]), expected[i]);
    const auto given = count / 4;
    EXPECT_EQ(launches(), given == 0 ? sizes{count} : (sizes{count - given, given}));
  }
}

TEST_P(batched_axes, refuse_marks_that_do_not_fit) {
  const auto refuse = [&](const std::string& text, const auto& work) {
    EXPECT_TRUE(throws(errc::invalid_argument, text, work));
  };
  program_builder p;
  const auto x = p.input("x", per_request.along(2));
  const auto what = std::move(p).build({p.add(exp(x))}, {.max_in_batch = 4});
  EXPECT_NE(what.text().find("x = input per request along 2\n"), std::string::npos) << what.text();
  refuse("x: is per request along axis 2, but its shape is [3, 4]", [&] {
    (void)results_of({what, {numbers({3, 4})}});
  });
  refuse("x: is per request along axis 2", [&] {
    (void)prepare_of({what, {tensor_spec::row_major(element_type::f32, {})}});
  });
  program_builder q;
  refuse("clip: is padded, so its parts must lie along axis 0",
         [&] { (void)q.input("clip", per_request.along(1), padded{2}); });
  // Runs along axis 0 of a padded input, and along axis 1 of another one or of an output.
  const auto a = q.input("a", per_request, padded{1});
  const auto b = q.input("b", per_request.along(1));
  const std::vector outputs{q.add(exp(a)), q.add(exp(b))};
  refuse("b: has the parts of the runs along axis 1, but an input of the program is padded",
         [&] { (void)std::move(q).build(outputs, {.max_in_batch = 4}); });
  program_builder r;
  const auto c = r.input("c", per_request, padded{1});
  const auto turned =
      std::move(r).build({r.add(strided_copy{.x = c.transposed()})}, {.max_in_batch = 4});
  refuse("outputs[0]: is not per request", [&] { (void)results_of({turned, {numbers({1, 4})}}); });
  // The axis of the runs is mixed.
  program_builder s;
  const auto mixed = s.add("mixed", softmax{.x = s.input("d", per_request.along(1)), .axis = 1});
  const auto mixing = std::move(s).build({mixed}, {.max_in_batch = 4});
  refuse("step 'mixed': softmax mixes axis 1 of d", [&] {
    (void)results_of({mixing, {numbers({3, 1})}});
  });
}

INSTANTIATE_TEST_SUITE_P(devices, batched_axes, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
