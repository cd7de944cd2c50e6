// SPDX-License-Identifier: Apache-2.0
// Steps whose operands are all constants of the host are computed once.
#include "operations/program/folding.hpp"
#include "operations/program/program_graph.hpp"
#include "tests/operations/program/programs.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

std::atomic<int> computed_tensors{0};

/// y = 2 · x. Counts the tensors that it computes on the host.
struct counted_double {
  operand x{};
  operand y{};
  double work = 0;  ///< that it states

  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &counted_double::x), output("y", &counted_double::y),
                           parameter("work", &counted_double::work));
  }
};
struct counted_call {
  std::int64_t count;
  double work;

  [[nodiscard]] launch_facts facts() const noexcept { return {.work = work}; }
};

const operation_descriptor& descriptor_of(operation_type<counted_double>) {
  static const typed_operation_descriptor<counted_double, counted_call> descriptor({
      .name = "counted_double",
      .infer =
          [](const counted_double& op, inference& inference) {
            const auto& x = inference.require(op.x);
            (void)inference.result(op.y, x.type, x.shape);
            return counted_call{static_cast<std::int64_t>(x.size()), op.work};
          },
      .compute =
          [](const counted_call& call, const launch_of<counted_double>& launch) {
            const auto* const x = launch.get<const float>(&counted_double::x);
            auto* const y = launch.get<float>(&counted_double::y);
            for (std::int64_t i = 0; i < call.count; ++i) y[i] = 2 * x[i];
            ++computed_tensors;
          },
  });
  return descriptor;
}

class folded_steps : public programs {
 protected:
  [[nodiscard]] bool on_host() { return runtime().device().id().kind == device_kind::host; }
};

TEST_P(folded_steps, are_computed_once_for_all_shapes) {
  if (!on_host()) GTEST_SKIP() << "the step has a function for the host alone";
  program_builder p;
  const auto x = p.input("x");
  const auto c = p.constant("c", host_tensor(std::vector<float>{1, 2, 3}, {3}));
  const auto twice = p.add("twice", counted_double{.x = c});
  const auto four_times = p.add("four_times", counted_double{.x = twice});
  const program program = std::move(p).build({p.add("sum", add(x, four_times))});
  computed_tensors = 0;
  for (const std::int64_t rows : {1, 5, 1, 64}) {
    const auto input = numbers({rows, 3});
    const auto ones = alone(sluice::upload{.values = {std::vector<float>{4, 8, 12}, extents{3}}});
    EXPECT_EQ(bits(results_of({program, {input}})[0]), bits(alone(add(input, ones))));
  }
  EXPECT_EQ(computed_tensors, 2);
}

TEST_P(folded_steps, are_computed_by_each_run_if_a_tensor_or_an_output_depends_on_it) {
  if (!on_host()) GTEST_SKIP() << "the step has a function for the host alone";
  program_builder p;
  const auto on_device = alone(sluice::upload{.values = {std::vector<float>{1, 2, 3}, extents{3}}});
  const auto c = p.constant("c", host_tensor(std::vector<float>{1, 2, 3}, {3}));
  const auto output = p.add("output", counted_double{.x = c});
  const auto of_tensor = p.add("of_tensor", counted_double{.x = on_device});
  const program program = std::move(p).build({output, p.add("sum", add(of_tensor, c))});
  computed_tensors = 0;
  for (int i = 0; i < 3; ++i) {
    const auto results = results_of({program, {}});
    EXPECT_EQ(values(results[0]), (std::vector<float>{2, 4, 6}));
    EXPECT_EQ(values(results[1]), (std::vector<float>{3, 6, 9}));
  }
  EXPECT_EQ(computed_tensors, 6);
}

// Other launches may write a tensor between two runs.
TEST_P(folded_steps, read_no_tensors) {
  const auto c = numbers({5});
  program_builder p;
  const auto squares = p.add("squares", multiply(c, c));
  const auto program = std::move(p).build({p.add("sum", add(p.input("x"), squares))});
  for (int i = 0; i < 3; ++i) {
    (void)alone(sluice::upload{.values = get(numbers({5})), .y = c});
    const auto x = numbers({5});
    const auto expected = alone(add(x, alone(multiply(c, c))));
    EXPECT_EQ(bits(results_of({program, {x}})[0]), bits(expected));
  }
}

TEST_P(folded_steps, are_no_commands_of_runs) {
  const auto on_host_numbers = get(numbers({3}));
  const auto build = [&](bool folds) {
    program_builder p;
    const auto x = p.input("x");
    const auto c = folds ? p.constant("c", on_host_numbers) : p.input("c");
    const auto twice = p.add("twice", affine{.x = c, .factor = 2});
    const auto square = p.add("square", multiply(twice, twice));
    return std::move(p).build({p.add("sum", add(x, square))},
                              {.capture = capture_policy::never, .fuse = false});
  };
  const auto input = numbers({4, 3});
  const auto spec = tensor_spec::of(input);
  const auto folded = build(true);
  EXPECT_EQ(prepare_of({folded, {spec}}).commands, 1U);
  const auto other = build(false);
  EXPECT_EQ(prepare_of({other, {spec, tensor_spec::row_major(element_type::f32, {3})}}).commands,
            3U);
  EXPECT_EQ(bits(results_of({folded, {input}})[0]),
            bits(results_of({other, {input, on_host_numbers}})[0]));
}

TEST_P(folded_steps, belong_to_captured_runs) {
  const auto c = get(numbers({100}));
  for (const auto capture : {capture_policy::at_prepare, capture_policy::automatic}) {
    program_builder p;
    const auto x = p.input("x");
    const auto root = p.add("root", exp(p.constant("c", c)));
    auto value = p.add("sum", add(x, root));
    for (int i = 0; i < 4; ++i) value = p.add("soft", softmax{.x = value});
    const auto program = std::move(p).build({value}, {.capture = capture, .fuse = false});
    for (int i = 0; i < 12; ++i) {
      const auto input = numbers({7, 100});
      auto expected = alone(add(input, alone(exp(alone(sluice::upload{.values = c})))));
      for (int k = 0; k < 4; ++k) expected = alone(softmax{.x = expected});
      EXPECT_EQ(bits(results_of({program, {input}})[0]), bits(expected));
    }
  }
}

TEST_P(folded_steps, belong_to_runs_that_are_launched_together) {
  const auto c = get(numbers({30}));
  program_builder p;
  const auto root = p.add("root", exp(p.constant("c", c)));
  const auto y = p.add("sum", add(p.input("x", per_request), root));
  const auto program = std::move(p).build({y}, {.max_in_batch = 4, .fuse = false});
  const auto expected_root = alone(exp(alone(sluice::upload{.values = c})));
  std::vector<tensor> inputs;
  std::vector<pending<tensors>> answers;
  for (int i = 0; i < 11; ++i) inputs.push_back(numbers({2, 30}));
  (void)run(test_executor(), sluice::prepare{program, {tensor_spec::of(inputs[0])}});
  for (const auto& x : inputs) {
    answers.push_back(submit(test_executor(), sluice::run{program, {x}}));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(bits(wait(test_executor(), answers[i])[0]),
              bits(alone(add(inputs[i], expected_root))));
  }
}

// What `fold` finds, without a device.
TEST(steps_to_fold, have_kernels_alone_on_a_gpu) {
  program_builder p;
  const auto x = p.input("x");
  const auto matrix = p.constant("matrix", host_tensor(element_type::f32, {8, 8}));
  const auto rows = p.constant("rows", host_tensor(element_type::i64, {4}));
  const auto scaled = p.add("scaled", affine{.x = matrix, .factor = 3});
  const auto product = p.add("product", gemm{.a = scaled, .b = matrix});
  const auto activated =
      p.add("activated", gemm{.a = matrix, .b = matrix, .activation = activation::relu});
  const auto found = p.add(
      "found", gather{.x = matrix, .indices = rows, .out_of_range = out_of_range_policy::error});
  const auto clamped = p.add(
      "clamped", gather{.x = scaled, .indices = rows, .out_of_range = out_of_range_policy::clamp});
  const auto of_product = p.add("of_product", exp(product));
  auto sum = x;
  for (const auto& value :
       {scaled, product, activated, found.slice(0, 0, 1), clamped.slice(0, 0, 1), of_product}) {
    sum = p.add("sum", add(sum, value));
  }
  const auto program = std::move(p).build({sum});
  const auto& graph = *program.graph();
  const std::vector inputs{tensor_spec::row_major(element_type::f32, {8, 8})};
  const auto run = graph.infer(inputs, {}, std::vector<operations::given_output>(1));
  const auto names_on = [&](device_kind kind) {
    std::vector<std::string> names;
    for (const auto& step : operations::fold(graph, *run.shared, kind).steps) {
      names.push_back(graph.steps()[step.number].name);
    }
    return names;
  };
  EXPECT_EQ(names_on(device_kind::host),
            (std::vector<std::string>{"scaled", "product", "activated", "clamped", "of_product"}));
  if (!descriptor_of(gemm{.activation = activation::relu}).makes_plans(device_kind::cuda)) {
    GTEST_SKIP() << "this build has no operations of a GPU";
  }
  EXPECT_EQ(names_on(device_kind::cuda), (std::vector<std::string>{"scaled", "clamped"}));
}

// Other plans wait for the steps that are computed ahead.
TEST_P(folded_steps, are_none_with_much_work) {
  if (!on_host()) GTEST_SKIP() << "the step has a function for the host alone";
  program_builder p;
  const auto c = p.constant("c", host_tensor(std::vector<float>{1, 2, 3}, {3}));
  const auto twice = p.add("twice", counted_double{.x = c, .work = 1e9});
  const auto program = std::move(p).build({p.add("sum", add(p.input("x"), twice))});
  computed_tensors = 0;
  for (int i = 0; i < 3; ++i) (void)results_of({program, {numbers({3})}});
  EXPECT_EQ(computed_tensors, 3);
}

TEST_P(folded_steps, are_none_that_may_find_errors) {
  program_builder p;
  const auto rows = p.constant("rows", host_tensor(std::vector<float>{1, 2, 3}, {3, 1}));
  const auto indices = p.constant("indices", host_tensor(std::vector<std::int64_t>{1, 7}, {2}));
  const auto found = p.add(
      "found", gather{.x = rows, .indices = indices, .out_of_range = out_of_range_policy::error});
  const auto program = std::move(p).build({p.add("y", add(p.input("x"), found))});
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(throws(errc::invalid_argument, "step 'found': indices: 7", [&] {
      (void)results_of({program, {numbers({2, 1})}});
    }));
  }
}

TEST_P(folded_steps, have_the_results_of_steps) {
  const auto on_host_filters = get(numbers({16, 40}));
  const auto build = [&](bool folds) {
    program_builder p;
    const auto x = p.input("x");
    const auto filters = folds ? p.constant("filters", on_host_filters) : p.input("filters");
    const auto scaled = p.add("scaled", affine{.x = filters.transposed(), .factor = 0.1});
    const auto root = p.add("root", exp(scaled.slice(0, 3, 33)));
    const auto narrow = p.add("narrow", cast{.x = root, .type = element_type::bf16});
    const auto wide = p.add("wide", cast{.x = narrow, .type = element_type::f32});
    return std::move(p).build({p.add("product", gemm{.a = x, .b = wide}), p.add("sum", add(x, x))});
  };
  const auto input = numbers({7, 30});
  const auto expected = results_of({build(false), {input, on_host_filters}});
  const auto results = results_of({build(true), {input}});
  EXPECT_EQ(bits(results[0]), bits(expected[0]));
  EXPECT_EQ(bits(results[1]), bits(expected[1]));
}

INSTANTIATE_TEST_SUITE_P(devices, folded_steps, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
