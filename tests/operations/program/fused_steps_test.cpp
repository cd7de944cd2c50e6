// SPDX-License-Identifier: Apache-2.0
// Which steps are computed together, and what that changes for a run.
#include "tests/operations/program/programs.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class fused_steps : public programs {
 protected:
  [[nodiscard]] bool on_host() { return runtime().device().id().kind == device_kind::host; }
  /// Checks how many steps are computed together for these inputs.
  void expect_fused(const program& p, const std::vector<tensor>& inputs, std::size_t steps) {
    const auto found = await_kernels(p, inputs);
    // Without a compiler of kernels a GPU fuses nothing, and says so.
    EXPECT_EQ(found.fused_steps, found.not_fused.empty() ? steps : 0) << p.text();
    EXPECT_TRUE(found.not_fused.empty() || !on_host()) << found.not_fused;
  }
  void expect_equal(const tensor& a, const tensor& b) { EXPECT_EQ(bits(a), bits(b)); }
};

TEST_P(fused_steps, of_a_chain_are_one_step_without_scratch) {
  const auto build = [](bool fuse) {
    program_builder p;
    auto x = p.add("scaled", affine{.x = p.input("x"), .factor = 2, .offset = 1});
    for (int i = 0; i < 6; ++i) x = p.add("more", i % 2 == 0 ? relu(x) : negate(x));
    return std::move(p).build({p.add("last", tanh(x))}, {.fuse = fuse});
  };
  const auto x = numbers({37, 211});
  const auto together = build(true);
  const auto one_by_one = build(false);
  expect_fused(together, {x}, 8);
  const auto spec = tensor_spec::of(x);
  const auto off = prepare_of({one_by_one, {spec}});
  EXPECT_EQ(off.fused_steps, 0U);
  EXPECT_EQ(off.not_fused, "the program is not to be fused");
  if (on_host()) {
    EXPECT_EQ(off.commands, 8U);
    const auto on = prepare_of({together, {spec}});
    EXPECT_EQ(on.scratch_bytes, 0U);
    EXPECT_EQ(on.commands, 1U);
    EXPECT_GT(off.scratch_bytes, 0U);
  }
  expect_equal(results_of({together, {x}})[0], results_of({one_by_one, {x}})[0]);
}

TEST_P(fused_steps, end_at_outputs_and_at_values_that_other_steps_read) {
  program_builder p;
  const auto x = p.input("x");
  const auto a = p.add("a", relu(x));
  const auto b = p.add("b", exp(a));
  const auto c = p.add("c", negate(b));  // b is an output
  const auto product = p.add("product", gemm{.a = c, .b = c});
  const auto d = p.add("d", add(c, product));  // c is read by the product
  const auto e = p.add("e", sqrt(d));
  const program program = std::move(p).build({b, e});
  const auto input = numbers({24, 24});
  expect_fused(program, {input}, 4);  // a and b, d and e
  const auto results = results_of({program, {input}});
  const auto one_b = alone(exp(alone(relu(input))));
  const auto one_c = alone(negate(one_b));
  const auto one_product = alone(gemm{.a = one_c, .b = one_c});
  expect_equal(results[0], one_b);
  expect_equal(results[1], alone(sqrt(alone(add(one_c, one_product)))));
}

TEST_P(fused_steps, round_each_intermediate_value_to_its_type) {
  for (const auto type : {element_type::f16, element_type::bf16}) {
    program_builder p;
    const auto x = p.input("x");
    const auto half = p.add("half", cast{.x = x, .type = type});
    const auto sum = p.add("sum", add(half, half));
    const auto third = p.add("third", affine{.x = sum, .factor = 1.0 / 3});
    const program program =
        std::move(p).build({p.add("wide", cast{.x = third, .type = element_type::f32})});
    const auto input = numbers({5000});
    expect_fused(program, {input}, 4);
    const auto one_half = alone(cast{.x = input, .type = type});
    const auto one_third = alone(affine{.x = alone(add(one_half, one_half)), .factor = 1.0 / 3});
    const auto wide = alone(cast{.x = one_third, .type = element_type::f32});
    const auto result = results_of({program, {input}})[0];
    expect_equal(result, wide);
    // Without the roundings, few elements would be numbers of the small type.
    expect_equal(
        alone(cast{.x = alone(cast{.x = result, .type = type}), .type = element_type::f32}),
        result);
  }
}

TEST_P(fused_steps, round_to_types_of_8_bits) {
  for (const auto type : {element_type::e4m3, element_type::e5m2}) {
    for (const bool saturate : {true, false}) {
      program_builder p;
      const auto x = p.input("x");
      const auto large = p.add("large", affine{.x = x, .factor = 1e5});
      const auto small = p.add("small", cast{.x = large, .type = type, .saturate = saturate});
      const auto chosen =
          p.add("chosen", where{.condition = p.add("positive", greater(x, 0)),
                                .a = small,
                                .b = p.add("same", strided_copy{.x = small.transposed()})});
      const program program =
          std::move(p).build({p.add("wide", cast{.x = chosen, .type = element_type::f32})});
      const auto input = numbers({70, 70});
      const auto one_small = alone(
          cast{.x = alone(affine{.x = input, .factor = 1e5}), .type = type, .saturate = saturate});
      const auto one_chosen = alone(where{.condition = alone(greater(input, 0)),
                                          .a = one_small,
                                          .b = alone(strided_copy{.x = one_small.transposed()})});
      (void)await_kernels(program, {input});
      expect_equal(results_of({program, {input}})[0],
                   alone(cast{.x = one_chosen, .type = element_type::f32}));
    }
  }
}

TEST_P(fused_steps, take_views_repeated_operands_and_channels) {
  program_builder p;
  const auto x = p.input("x");      // (6, 5, 70)
  const auto row = p.input("row");  // (70)
  const auto scale = p.input("scale");
  const auto sliced = p.add("sliced", add(x.slice(0, 1, 6, 2), row));
  const auto channels = p.add("channels", affine{.x = sliced, .scale = scale, .axis = 1});
  const auto turned = p.add("turned", strided_copy{.x = channels.permute({2, 0, 1})});
  const auto last = p.add("last", relu(turned));
  const program program = std::move(p).build({last});
  const auto a = numbers({6, 5, 70});
  const auto b = numbers({70});
  const auto c = numbers({5});
  expect_fused(program, {a, b, c}, 4);
  const auto sum = alone(add(a.slice(0, 1, 6, 2), b));
  const auto scaled = alone(affine{.x = sum, .scale = c, .axis = 1});
  const auto expected = alone(relu(alone(strided_copy{.x = scaled.permute({2, 0, 1})})));
  expect_equal(results_of({program, {a, b, c}})[0], expected);
}

// Those of the host device are stored past the caches.
TEST_P(fused_steps, may_have_large_results) {
  program_builder p;
  const auto x = p.input("x");
  const auto scaled = p.add("scaled", affine{.x = x, .factor = 3, .offset = -0.25});
  const auto positive = p.add("positive", relu(scaled));
  const auto sum = p.add("sum", add(scaled, positive));
  const program program = std::move(p).build({p.add("product", multiply(sum, x))});
  const auto input = numbers({(std::int64_t{2} << 20) + 37});
  expect_fused(program, {input}, 4);
  const auto one_scaled = alone(affine{.x = input, .factor = 3, .offset = -0.25});
  const auto one_sum = alone(add(one_scaled, alone(relu(one_scaled))));
  const auto expected = alone(multiply(one_sum, input));
  expect_equal(results_of({program, {input}})[0], expected);
  expect_equal(results_of({program, {input}, {input}})[0], expected);  // over the input
}

TEST_P(fused_steps, may_have_no_elements_or_one) {
  program_builder p;
  const auto x = p.input("x");
  const auto y = p.add("y", exp(p.add("negative", negate(x))));
  const program program = std::move(p).build({y});
  for (const auto& shape : {extents{0}, extents{3, 0}, extents{1}, extents{}, extents{2, 1, 1}}) {
    const auto input = numbers(shape);
    const auto result = results_of({program, {input}})[0];
    EXPECT_EQ(result.shape(), shape);
    expect_equal(result, alone(exp(alone(negate(input)))));
  }
}

TEST_P(fused_steps, keep_infinities_and_nan) {
  constexpr auto infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> numbers_of{NAN, infinity, -infinity, 0.0F, -0.0F, 1e-45F, 3e38F, -1};
  const auto input = alone(sluice::upload{.values = {numbers_of, extents{8}}});
  program_builder p;
  const auto x = p.input("x");
  const auto larger = p.add("larger", maximum(x, x));
  const auto root = p.add("root", sqrt(larger));
  const program program = std::move(p).build({p.add("last", subtract(root, x))});
  expect_fused(program, {input}, 3);
  const auto one_root = alone(sqrt(alone(maximum(input, input))));
  expect_equal(results_of({program, {input}})[0], alone(subtract(one_root, input)));
}

// An input that a step overwrites in place is read before that.
TEST_P(fused_steps, read_an_input_before_it_is_overwritten) {
  program_builder p;
  const auto x = p.input("x");
  const auto turned = p.add("turned", relu(x.transposed()));  // read later if it is fused
  const auto doubled = p.add("doubled", affine{.x = x, .factor = 2});
  const auto sum = p.add("sum", add(turned, turned));
  const program program = std::move(p).build({doubled, sum});
  const auto input = numbers({50, 50});
  const auto expected = alone(affine{.x = input, .factor = 2});
  const auto one_turned = alone(relu(input.transposed()));
  const auto expected_sum = alone(add(one_turned, one_turned));
  const auto results = results_of({program, {input}, {input, operand()}});
  expect_equal(results[0], expected);
  expect_equal(results[1], expected_sum);
}

TEST_P(fused_steps, write_over_an_input_that_they_read_in_place) {
  for (const bool transposes : {false, true}) {
    program_builder p;
    const auto x = p.input("x");
    const auto first = p.add("first", exp(transposes ? x.transposed() : x));
    const program program = std::move(p).build({p.add("last", add(first, x))});
    const auto input = numbers({70, 70});
    const auto expected = alone(add(alone(exp(transposes ? input.transposed() : input)), input));
    const auto results = results_of({program, {input}, {input}});
    expect_equal(results[0], expected);
    expect_equal(input, expected);
  }
}

// The memory of a value is not taken over while a later step still reads it.
TEST_P(fused_steps, keep_values_that_an_update_would_take_over) {
  program_builder p;
  const auto x = p.input("x");
  const auto c = p.add("c", gemm{.a = x, .b = x});
  const auto early = p.add("early", relu(c));
  const auto updated = p.add("updated", gemm{.a = x, .b = x, .c = c, .beta = 1});
  const program program = std::move(p).build({p.add("late", add(early, updated))});
  const auto input = numbers({33, 33});
  const auto one_c = alone(gemm{.a = input, .b = input});
  const auto one_early = alone(relu(one_c));
  (void)alone(gemm{.a = input, .b = input, .c = one_c, .beta = 1});
  expect_equal(results_of({program, {input}})[0], alone(add(one_early, one_c)));
}

TEST_P(fused_steps, of_many_operands_are_several_groups) {
  program_builder p;
  std::vector<tensor> inputs;
  auto sum = p.input("x0");
  inputs.push_back(numbers({9, 11}));
  auto expected = inputs.back();
  for (int i = 1; i < 40; ++i) {
    inputs.push_back(numbers({9, 11}));
    sum = p.add("sum", add(sum, p.input("x" + std::to_string(i))));
    expected = alone(add(expected, inputs.back()));
  }
  const program program = std::move(p).build({sum});
  expect_fused(program, inputs, 39);
  expect_equal(results_of({program, {inputs.begin(), inputs.end()}})[0], expected);
}

TEST_P(fused_steps, are_captured_and_launched_together) {
  program_builder p;
  const auto x = p.input("x", per_request);
  auto y = p.add("scaled", affine{.x = x, .factor = 0.5, .offset = 1});
  y = p.add("root", sqrt(p.add("larger", maximum(y, x))));
  const auto largest = p.add(
      "largest", reduce{.x = y, .kind = reduction::max, .axes = extents{1}, .keep_dims = true});
  y = p.add("last", add(p.add("shifted", subtract(y, largest)), x));
  const program program = std::move(p).build({y}, {.max_in_batch = 8});
  std::vector<tensor> inputs;
  std::vector<tensor> expected;
  for (int i = 0; i < 32; ++i) {
    inputs.push_back(numbers({1, 300}));
    const auto& one = inputs.back();
    const auto scaled = alone(affine{.x = one, .factor = 0.5, .offset = 1});
    const auto root = alone(sqrt(alone(maximum(scaled, one))));
    const auto most =
        alone(reduce{.x = root, .kind = reduction::max, .axes = extents{1}, .keep_dims = true});
    expected.push_back(alone(add(alone(subtract(root, most)), one)));
  }
  expect_fused(program, {inputs[0]}, 5);
  for (int round = 0; round < 4; ++round) {
    std::vector<pending<tensors>> answers;
    for (const auto& input : inputs) {
      answers.push_back(submit(test_executor(), sluice::run{program, {input}}));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) expect_equal(wait(answers[i])[0], expected[i]);
  }
  // One at a time, a GPU captures them.
  for (int i = 0; i < 32; ++i) {
    const auto& input = inputs[static_cast<std::size_t>(i)];
    expect_equal(results_of({program, {input}})[0], expected[static_cast<std::size_t>(i)]);
  }
}

INSTANTIATE_TEST_SUITE_P(devices, fused_steps, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
