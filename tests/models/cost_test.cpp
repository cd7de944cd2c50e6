// SPDX-License-Identifier: Apache-2.0
// What a run of the program of a model costs.
#include "tests/models/onnx_graph.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace sluice::test {
namespace {

model_cost cost_of(const onnx_graph& g, const extents& shape) {
  return g.make().program_for({{"x", tensor_spec::row_major(element_type::f32, shape)}}).cost;
}

TEST(model_cost, counts_two_for_each_product) {
  auto generator = make_generator();
  std::uniform_int_distribution<std::int64_t> extent(1, 9);
  const auto m = extent(generator);
  const auto k = extent(generator);
  const auto n = extent(generator);
  onnx_graph product;
  product.input("x").output("y");
  product.constant("w", std::vector<float>(static_cast<std::size_t>(k * n)), {k, n});
  product.node("MatMul", {"x", "w"}, {"y"});
  EXPECT_EQ(cost_of(product, {5, m, k}).arithmetic, static_cast<double>(2 * 5 * m * k * n));

  // 2 groups of 3 filters over 2 channels, 3 x 2 elements, of images of 4 x 5 that are padded.
  onnx_graph convolution;
  convolution.input("x").output("y");
  convolution.constant("w", std::vector<float>(72), {6, 2, 3, 2});
  convolution.node("Conv", {"x", "w"}, {"y"})
      .with("group", 2)
      .with("pads", std::vector<std::int64_t>{1, 0, 1, 0});
  EXPECT_EQ(cost_of(convolution, {7, 4, 4, 5}).arithmetic, 2.0 * (7 * 6 * 4 * 4) * (2 * 3 * 2));

  // 2 directions of 4 gates of 3 units, over 5 elements of 7 sequences of 2 numbers.
  onnx_graph recurrent;
  recurrent.input("x").output("y");
  recurrent.constant("w", std::vector<float>(48), {2, 12, 2});
  recurrent.constant("r", std::vector<float>(72), {2, 12, 3});
  recurrent.node("LSTM", {"x", "w", "r"}, {"y"})
      .with("hidden_size", 3)
      .with("direction", "bidirectional");
  const auto products = 2.0 * 4 * 3 * (2 + 3) * 5 * 7;
  EXPECT_GE(cost_of(recurrent, {5, 7, 2}).arithmetic, 2 * products);
  EXPECT_LE(cost_of(recurrent, {5, 7, 2}).arithmetic, 2 * products + 5 * 7 * 2 * 3);
}

TEST(model_cost, counts_elements_of_other_steps_and_no_copies) {
  onnx_graph g;
  g.input("x").output("y");
  g.node("Neg", {"x"}, {"a"});                                         // 60
  g.node("ReduceSum", {"a"}, {"b"});                                   // 60
  g.node("Cast", {"a"}, {"c"}).with("to", onnx::TensorProto::DOUBLE);  // 0
  g.node("Cast", {"c"}, {"d"}).with("to", onnx::TensorProto::FLOAT);   // 0
  g.node("Concat", {"d", "a"}, {"e"}).with("axis", 0);                 // 0
  g.node("Add", {"e", "b"}, {"y"});                                    // 120
  EXPECT_EQ(cost_of(g, {3, 4, 5}).arithmetic, 60 + 60 + 120);
}

// Of f32 with 4 bytes: a, b and c of 3 x 4 are needed in turn.
TEST(model_cost, counts_bytes_while_they_are_needed) {
  onnx_graph g;
  g.input("x").output("y");
  g.constant("w", std::vector<float>(12), {3, 4});
  g.node("Add", {"x", "w"}, {"a"});
  g.node("Mul", {"x", "w"}, {"b"});
  g.node("Transpose", {"a"}, {"t"});    // a view: a is needed while t is
  g.node("MatMul", {"b", "t"}, {"c"});  // 3 x 3
  g.node("Neg", {"c"}, {"d"});          // a and b are not needed any more
  g.node("Add", {"d", "d"}, {"y"});     // the output
  const auto cost = cost_of(g, {3, 4});
  EXPECT_EQ(cost.constant_bytes, 48U);
  EXPECT_EQ(cost.intermediate_bytes, 48U + 48 + 36 + 36);
  EXPECT_EQ(cost.live_bytes, 48U + 48 + 36);
}

TEST(model_cost, has_no_constants_that_no_step_reads) {
  onnx_graph g;
  g.input("x").output("y").output("z");
  g.constant("shape", std::vector<std::int64_t>{-1});
  g.constant("unused", std::vector<float>(100), {100});
  g.node("Reshape", {"x", "shape"}, {"r"});
  g.node("Neg", {"r"}, {"y"});
  g.node("Neg", {"y"}, {"z"});
  const auto cost = cost_of(g, {2, 3});
  EXPECT_EQ(cost.constant_bytes, 0U);
  EXPECT_EQ(cost.intermediate_bytes, 0U);
  EXPECT_EQ(cost.live_bytes, 0U);
}

TEST(model_cost, of_absurd_shapes_does_not_overflow) {
  onnx_graph g;
  g.input("x").output("y");
  g.node("Neg", {"x"}, {"v0"});
  const char* names[] = {"v0", "v1", "v2", "v3", "v4", "v5"};
  for (int i = 0; i < 5; ++i) g.node("Neg", {names[i]}, {names[i + 1]});
  g.node("Neg", {"v5"}, {"y"});
  const auto cost = cost_of(g, {std::int64_t{1} << 31U, std::int64_t{1} << 29U});
  EXPECT_EQ(cost.intermediate_bytes, std::numeric_limits<std::size_t>::max());
  EXPECT_EQ(cost.live_bytes, std::size_t{1} << 63U);
  EXPECT_EQ(cost.arithmetic, 7 * std::exp2(60));
}

}  // namespace
}  // namespace sluice::test
