// SPDX-License-Identifier: Apache-2.0
// Constants of programs that steps need in another order of dimensions.
#include "tests/operations/program/prepacked_sum.hpp"
#include "tests/operations/program/programs.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/relative_error.hpp"

#include <sluice/runtime/memory_adaptors.hpp>
#include <sluice/runtime/memory_budget.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// Column `column` of a matrix.
host_tensor column_of(const host_tensor& matrix, std::size_t column = 0) {
  const auto numbers = matrix.to_vector<float>();
  const auto width = static_cast<std::size_t>(matrix.shape()[1]);
  std::vector<float> result;
  for (auto i = column; i < numbers.size(); i += width) result.push_back(numbers[i]);
  const auto count = static_cast<std::int64_t>(result.size());
  return {std::move(result), {count}};
}

class packed_constants : public programs {
 protected:
  /// The `layer_norm` of an input. It packs a scale with gaps.
  template <class Constant>
  static program norm_with(const Constant& scale,
                           capture_policy capture = capture_policy::automatic) {
    program_builder p;
    const auto x = p.input("x");
    const auto c = p.constant("scale", scale);
    const auto y = p.add("norm", layer_norm{.x = x, .scale = c});
    return std::move(p).build({y}, {.capture = capture});
  }
  /// Likewise, with the first column of a constant as the scale.
  template <class Constant>
  static program norm_with_column(const Constant& matrix,
                                  capture_policy capture = capture_policy::automatic) {
    program_builder p;
    const auto x = p.input("x");
    const auto c = p.constant("matrix", matrix);
    const auto y = p.add("norm", layer_norm{.x = x, .scale = c.select(1, 0)});
    return std::move(p).build({y}, {.capture = capture});
  }
  host_tensor matrix(std::int64_t rows, std::int64_t columns = 2) {
    return get(numbers({rows, columns}));
  }
  tensor norm(const tensor& x, const host_tensor& matrix) {
    const auto scale = alone(sluice::upload{.values = column_of(matrix)});
    return alone(layer_norm{.x = x, .scale = scale});
  }
  std::vector<std::uint32_t> expected(const tensor& x, const host_tensor& matrix) {
    return bits(norm(x, matrix));
  }
  prepared known(const program& what, const tensor& x) {
    return prepare_of({what, {tensor_spec::of(x)}});
  }
  [[nodiscard]] std::size_t outstanding() { return runtime().statistics().bytes_outstanding; }
  void await_outstanding_below(std::size_t bytes) {
    while (outstanding() >= bytes) runtime().reap_pending();
  }
  [[nodiscard]] bool on_host() { return runtime().device().id().kind == device_kind::host; }
};

TEST_P(packed_constants, cost_a_run_neither_a_command_nor_scratch_memory) {
  const auto m = matrix(1021);
  const auto x = numbers({3, 1021});
  const auto contiguous = known(norm_with(column_of(m)), x);
  const auto packed = known(norm_with_column(m), x);
  EXPECT_EQ(packed.commands, contiguous.commands);
  EXPECT_EQ(packed.scratch_bytes, contiguous.scratch_bytes);
}

TEST_P(packed_constants, do_not_change_results) {
  for (const auto capture : {capture_policy::automatic, capture_policy::at_prepare}) {
    for (const std::int64_t count : {1, 2, 31, 1021, 4096}) {
      const auto m = matrix(count, 3);
      const auto program = norm_with_column(m, capture);
      for (int i = 0; i < 3; ++i) {
        const auto x = numbers({2, count});
        EXPECT_EQ(bits(results_of({program, {x}})[0]), expected(x, m)) << count;
      }
    }
  }
}

// Others may write a tensor, and an input differs from run to run.
TEST_P(packed_constants, are_neither_tensors_nor_inputs) {
  const auto x = numbers({2, 64});
  const auto m = numbers({64, 2});
  const auto contiguous = known(norm_with(column_of(get(m))), x);
  const auto of_tensor = norm_with_column(m);
  EXPECT_EQ(known(of_tensor, x).commands, contiguous.commands + 1);
  program_builder p;
  const auto in = p.input("x");
  const auto y = p.add("norm", layer_norm{.x = in, .scale = p.input("m").select(1, 0)});
  const auto of_input = std::move(p).build({y});
  for (int i = 0; i < 3; ++i) {
    (void)alone(sluice::upload{.values = matrix(64), .y = m});
    EXPECT_EQ(bits(results_of({of_tensor, {x}})[0]), expected(x, get(m)));
    EXPECT_EQ(bits(results_of({of_input, {x, m}})[0]), expected(x, get(m)));
  }
}

// A copy of all repetitions may be much larger than the constant.
TEST_P(packed_constants, are_packed_by_each_run_if_they_repeat_elements) {
  const auto x = numbers({2, 64});
  const auto one = get(numbers({1}));
  const auto program = norm_with(one);
  const auto contiguous = known(norm_with(column_of(matrix(64))), x);
  EXPECT_EQ(known(program, x).commands, contiguous.commands + 1);
  const auto scale = alone(fill{.value = one.to_vector<float>()[0], .shape = extents{64}});
  EXPECT_EQ(bits(results_of({program, {x}})[0]), bits(alone(layer_norm{.x = x, .scale = scale})));
}

TEST_P(packed_constants, may_be_parts_and_columns_of_one_constant) {
  const auto m = matrix(100, 3);
  program_builder p;
  const auto x = p.input("x");
  const auto c = p.constant("m", m);
  const auto norm = [&](const program_value& value, std::int64_t first, std::int64_t column) {
    return p.add("norm",
                 layer_norm{.x = value, .scale = c.slice(0, first, first + 40).select(1, column)});
  };
  const auto program = std::move(p).build({norm(norm(norm(norm(x, 0, 0), 0, 1), 60, 1), 0, 0)});
  auto y = numbers({2, 40});
  const auto result = results_of({program, {y}})[0];
  const auto numbers_of_m = m.to_vector<float>();
  for (const auto& [first, column] : {std::pair{0, 0}, {0, 1}, {60, 1}, {0, 0}}) {
    std::vector<float> scale;
    for (int i = first; i < first + 40; ++i) {
      scale.push_back(numbers_of_m[static_cast<std::size_t>(3 * i + column)]);
    }
    y = alone(layer_norm{
        .x = y, .scale = alone(sluice::upload{.values = host_tensor(std::move(scale), {40})})});
  }
  EXPECT_EQ(bits(result), bits(y));
}

TEST_P(packed_constants, may_be_results_of_steps_that_are_computed_once) {
  const auto m = matrix(77);
  const auto x = numbers({2, 77});
  program_builder p;
  const auto twice = p.add("twice", affine{.x = p.constant("m", m), .factor = 2});
  const auto y = p.add("norm", layer_norm{.x = p.input("x"), .scale = twice.select(1, 0)});
  const auto program = std::move(p).build({y});
  if (on_host()) {
    EXPECT_EQ(known(program, x).commands, 1U);
  }
  auto scale = column_of(m).to_vector<float>();
  for (auto& number : scale) number *= 2;
  const auto factors = alone(sluice::upload{.values = host_tensor(std::move(scale), {77})});
  EXPECT_EQ(bits(results_of({program, {x}})[0]), bits(alone(layer_norm{.x = x, .scale = factors})));
}

TEST_P(packed_constants, may_be_operands_of_varying_steps) {
  const auto c = get(numbers({17, 13, 2}));
  const auto build = [&](bool is_packed) {
    program_builder p;
    const auto b = p.constant("c", c).select(2, 1);
    const auto contiguous =
        alone(strided_copy{.x = alone(sluice::upload{.values = c}).select(2, 1)});
    const auto y = p.add("product", gemm{.a = p.input("a"),
                                         .b = is_packed ? b : p.constant("b", get(contiguous)),
                                         .alpha = p.scalar("alpha")});
    return std::move(p).build({y});
  };
  const auto packed = build(true);
  const auto contiguous = build(false);
  const auto a = numbers({5, 17});
  for (const double alpha : {1.0, -0.5, 3.0}) {
    EXPECT_EQ(bits(results_of({packed, {a}, {}, {alpha}})[0]),
              bits(results_of({contiguous, {a}, {}, {alpha}})[0]));
  }
}

TEST_P(packed_constants, are_shared_by_steps_lanes_and_shapes) {
  constexpr std::int64_t count = 1 << 18;
  constexpr std::size_t bytes = count * sizeof(float);
  const auto x = numbers({1, count});
  const auto before = outstanding();
  {
    program_builder p;
    const auto c = p.constant("m", matrix(count)).select(1, 0);
    const auto in = p.input("x");
    const auto y = p.add("first", layer_norm{.x = in, .scale = c});
    const auto z = p.add("second", layer_norm{.x = in, .scale = c, .epsilon = 1});
    const auto program = std::move(p).build({y, z});
    const auto first = make_executor();
    const auto second = make_executor();
    const auto results = run(*first, sluice::run{program, {x}});
    EXPECT_GE(outstanding(), before + 5 * bytes) << "the constant, its copy and the results";
    await_outstanding_below(before + 6 * bytes);
    const auto with_one = outstanding();
    (void)run(*second, sluice::prepare{program, {tensor_spec::of(x)}});
    (void)run(*second,
              sluice::prepare{program, {tensor_spec::row_major(element_type::f32, {2, count})}});
    EXPECT_LT(outstanding(), with_one + bytes) << "the executables have one copy";
  }
  await_outstanding_below(before + bytes);
}

TEST_P(packed_constants, belong_to_runs_that_are_launched_together) {
  const auto m = matrix(300);
  program_builder p;
  const auto c = p.constant("m", m).select(1, 0);
  const auto y = p.add("norm", layer_norm{.x = p.input("x", per_request), .scale = c});
  const auto program = std::move(p).build({y}, {.max_in_batch = 4});
  std::vector<tensor> inputs;
  for (int i = 0; i < 7; ++i) inputs.push_back(numbers({1, 300}));
  (void)known(program, inputs[0]);
  (void)run(test_executor(), sluice::prepare{program, {tensor_spec::of(inputs[0])}});
  std::vector<pending<tensors>> answers;
  for (const auto& x : inputs)
    answers.push_back(submit(test_executor(), sluice::run{program, {x}}));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    // The last bits may depend on the other runs.
    const auto result = wait(test_executor(), answers[i])[0];
    EXPECT_LE(relative_error(values(result), values(norm(inputs[i], m))), 1e-5);
  }
}

TEST_P(packed_constants, outlive_their_executable_while_a_run_is_in_flight) {
  const auto m = matrix(256);
  const auto x = numbers({2, 256});
  auto program = std::make_unique<sluice::program>(norm_with_column(m));
  const auto fresh = make_executor();
  (void)run(*fresh, sluice::run{*program, {x}});
  gate closed;
  closed.hold(fresh->lane().stream());
  auto answer = submit(*fresh, sluice::run{*program, {x}});
  program.reset();
  fresh->work();
  closed.open();
  EXPECT_EQ(bits(wait(*fresh, answer)[0]), expected(x, m));
}

/// A budget for an input, a constant of twice its size, a copy, and a run with a packed copy.
class packed_constants_with_budget : public packed_constants {
 protected:
  static constexpr std::size_t bytes = std::size_t{4} << 20U;
  static constexpr std::int64_t count = bytes / sizeof(float);
  runtime_options options_of_runtime() override {
    runtime_options options;
    options.resource = make_budget_resource(make_async_resource(), budget_);
    return options;
  }
  std::shared_ptr<memory_budget> budget_ = std::make_shared<memory_budget>(7 * bytes + bytes / 2);
};

TEST_P(packed_constants_with_budget, leave_the_memory_of_runs) {
  const auto m = matrix(count);
  const auto x = numbers({1, count});
  auto other = runtime().allocate_bytes(bytes, stream(), "other");
  const auto program = norm_with_column(m);
  const auto without_copy = known(program, x);
  EXPECT_GE(without_copy.scratch_bytes, bytes) << "for the packed copy";
  const auto y = results_of({program, {x}})[0];
  other = {};
  EXPECT_EQ(bits(y), expected(x, m));
}

TEST_P(packed_constants_with_budget, are_packed_if_there_is_room) {
  const auto m = matrix(count);
  const auto x = numbers({1, count});
  EXPECT_LT(known(norm_with_column(m), x).scratch_bytes, bytes);
}

/// Of these steps the operation packs W, and wants a prepacked copy on a host device.
class packed_and_prepacked_constants : public packed_constants {
 protected:
  void SetUp() override {
    packed_constants::SetUp();
    if (IsSkipped()) return;
    if (!on_host()) GTEST_SKIP() << "no operation prepacks a constant on a GPU";
    prepacking_counts.reset();
  }
  runtime_options options_of_runtime() override {
    runtime_options options;
    options.resource = make_failing_resource(make_pool_resource(make_async_resource()), faults_);
    return options;
  }
  static program sum_with_column(const host_tensor& matrix) {
    program_builder p;
    const auto x = p.input("x");
    const auto c = p.constant("matrix", matrix).select(1, 1);
    return std::move(p).build({p.add("sum", prepacked_sum{.x = x, .w = c})});
  }
  void expect_sum(const tensor& sum, const tensor& x, const host_tensor& matrix) {
    const auto column = column_of(matrix, 1).to_vector<float>();
    auto sums = values(x);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += column[i % column.size()];
    EXPECT_EQ(values(sum), sums);
  }
  std::shared_ptr<fault_countdown> faults_ = std::make_shared<fault_countdown>();
};

TEST_P(packed_and_prepacked_constants, are_prepacked_once_and_only_that_copy_stays) {
  constexpr std::int64_t count = 1 << 18;
  constexpr std::size_t bytes = count * sizeof(float);
  const auto m = matrix(count);
  const auto x = numbers({1, count});
  const auto before = outstanding();
  const auto program = sum_with_column(m);
  const auto with_copy = known(program, x);
  EXPECT_EQ(with_copy.commands, 1U);
  EXPECT_EQ(with_copy.scratch_bytes, 0U);
  await_outstanding_below(before + 4 * bytes);
  EXPECT_GE(outstanding(), before + 3 * bytes) << "the constant and its prepacked copy";
  for (const std::int64_t rows : {1, 2}) {
    const auto input = numbers({rows, count});
    expect_sum(results_of({program, {input}})[0], input, m);
  }
  EXPECT_EQ(prepacking_counts.copies, 1);
  EXPECT_EQ(prepacking_counts.runs_with_copy, 2);
  EXPECT_EQ(prepacking_counts.runs_without_copy, 0);
}

TEST_P(packed_and_prepacked_constants, are_packed_if_there_is_no_memory_to_prepack_them) {
  const auto m = matrix(1 << 16);
  const auto x = numbers({1 << 16});
  const auto program = sum_with_column(m);
  // The constants are first. Before each copy, there must be memory for the scratch memory, the
  // input and the output of a run. The runtime tries twice.
  constexpr int constants = 1;
  constexpr int packed_copy = 3 + 1;
  faults_->fail_nth(constants + packed_copy + 1, 2);
  const auto known_packed = known(program, x);
  EXPECT_EQ(known_packed.commands, 1U);
  expect_sum(results_of({program, {x}})[0], x, m);
  EXPECT_EQ(prepacking_counts.copies, 0);
  EXPECT_EQ(prepacking_counts.runs_without_copy, 1);
}

TEST_P(packed_and_prepacked_constants, are_packed_by_each_run_if_there_is_no_memory) {
  const auto m = matrix(1 << 16);
  const auto x = numbers({1 << 16});
  const auto program = sum_with_column(m);
  faults_->fail_nth(2, 2);
  const auto without_copy = known(program, x);
  EXPECT_EQ(without_copy.commands, 2U);
  EXPECT_GE(without_copy.scratch_bytes, sizeof(float) << 16U);
  for (int i = 0; i < 2; ++i) expect_sum(results_of({program, {x}})[0], x, m);
  EXPECT_EQ(prepacking_counts.copies, 0);
  EXPECT_EQ(prepacking_counts.runs_without_copy, 2);
  // Another executable tries again.
  const auto other = make_executor();
  expect_sum(run(*other, sluice::run{program, {x}})[0], x, m);
  EXPECT_EQ(prepacking_counts.runs_with_copy, 1);
}

INSTANTIATE_TEST_SUITE_P(devices, packed_constants, every_device(), parameter_name);
INSTANTIATE_TEST_SUITE_P(devices, packed_constants_with_budget, every_device(), parameter_name);
INSTANTIATE_TEST_SUITE_P(devices, packed_and_prepacked_constants, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
