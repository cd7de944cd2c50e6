// SPDX-License-Identifier: Apache-2.0
// Steps whose operands are all constants of the host are computed once.
#include "tests/operations/program/programs.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

std::atomic<int> computed{0};

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
            ++computed;
          },
  });
  return descriptor;
}

class folded_steps : public programs {
 protected:
  [[nodiscard]] bool on_host() { return runtime().device().id().kind == device_kind::host; }
};

TEST_P(folded_steps, are_computed_once_for_all_shapes) {
  if (!on_host()) GTEST_SKIP() << "only a host device computes steps ahead";
  program_builder p;
  const auto x = p.input("x");
  const auto c = p.constant("c", host_tensor(std::vector<float>{1, 2, 3}, {3}));
  const auto twice = p.add("twice", counted_double{.x = c});
  const auto four_times = p.add("four_times", counted_double{.x = twice});
  const program program = std::move(p).build({p.add("sum", add(x, four_times))});
  computed = 0;
  for (const std::int64_t rows : {1, 5, 1, 64}) {
    const auto input = numbers({rows, 3});
    const auto ones = alone(sluice::upload{.values = {std::vector<float>{4, 8, 12}, extents{3}}});
    EXPECT_EQ(bits(results_of({program, {input}})[0]), bits(alone(add(input, ones))));
  }
  EXPECT_EQ(computed, 2);
}

TEST_P(folded_steps, are_computed_by_each_run_if_a_tensor_or_an_output_depends_on_it) {
  if (!on_host()) GTEST_SKIP() << "only a host device computes steps ahead";
  program_builder p;
  const auto on_device = alone(sluice::upload{.values = {std::vector<float>{1, 2, 3}, extents{3}}});
  const auto c = p.constant("c", host_tensor(std::vector<float>{1, 2, 3}, {3}));
  const auto output = p.add("output", counted_double{.x = c});
  const auto of_tensor = p.add("of_tensor", counted_double{.x = on_device});
  const program program = std::move(p).build({output, p.add("sum", add(of_tensor, c))});
  computed = 0;
  for (int i = 0; i < 3; ++i) {
    const auto results = results_of({program, {}});
    EXPECT_EQ(values(results[0]), (std::vector<float>{2, 4, 6}));
    EXPECT_EQ(values(results[1]), (std::vector<float>{3, 6, 9}));
  }
  EXPECT_EQ(computed, 6);
}

TEST_P(folded_steps, are_no_commands_of_runs) {
  if (!on_host()) GTEST_SKIP() << "only a host device computes steps ahead";
  const auto on_host_numbers = get(numbers({3}));
  const auto build = [&](bool folds) {
    program_builder p;
    const auto x = p.input("x");
    const auto c = folds ? p.constant("c", on_host_numbers) : p.input("c");
    const auto twice = p.add("twice", affine{.x = c, .factor = 2});
    const auto square = p.add("square", multiply(twice, twice));
    return std::move(p).build({p.add("sum", add(x, square))}, {.fuse = false});
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

// Other plans wait for the steps that are computed ahead.
TEST_P(folded_steps, are_none_with_much_work) {
  if (!on_host()) GTEST_SKIP() << "only a host device computes steps ahead";
  program_builder p;
  const auto c = p.constant("c", host_tensor(std::vector<float>{1, 2, 3}, {3}));
  const auto twice = p.add("twice", counted_double{.x = c, .work = 1e9});
  const auto program = std::move(p).build({p.add("sum", add(p.input("x"), twice))});
  computed = 0;
  for (int i = 0; i < 3; ++i) (void)results_of({program, {numbers({3})}});
  EXPECT_EQ(computed, 3);
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
