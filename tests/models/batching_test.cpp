// SPDX-License-Identifier: Apache-2.0
// Which requests to a model may be computed together.
#include "tests/models/batching_test.hpp"

#include "tests/support/expect_error.hpp"

namespace sluice::test {
namespace {

using integers = std::vector<std::int64_t>;
using axes = run_axes_of_inputs;

class model_batching : public batching_test {
 protected:
  std::vector<float> numbers(std::int64_t count) {
    return random_tensor({count}).to_vector<float>();
  }
  /// What is known of a model with the input "x" of this shape.
  static model_program made_of(onnx_graph& g, const extents& shape,
                               const model_options& options = {}) {
    return g.make().program_for({{"x", tensor_spec::row_major(element_type::f32, shape)}}, {},
                                options);
  }
  /// A graph with the input "x" and the output "y".
  static onnx_graph graph() {
    onnx_graph g;
    g.input("x").output("y");
    return g;
  }
  /// Requests batch, and each of them has the result that it has alone.
  void expect_batch(onnx_graph& g, const extents& shape) {
    const auto made = made_of(g, shape);
    ASSERT_TRUE(made.batching) << made.batching.reason;
    EXPECT_EQ(made.max_in_batch, 64U);
    EXPECT_EQ(made.batching.inputs, axes{0});
    expect_equal(made, {{{"x", random_tensor(shape)}},
                        {{"x", random_tensor(shape)}},
                        {{"x", random_tensor(shape)}}});
  }
  /// Requests are computed alone, because of the node with this name.
  static void expect_single(onnx_graph& g, const extents& shape, const std::string& name) {
    const auto made = made_of(g, shape);
    EXPECT_FALSE(made.batching);
    EXPECT_EQ(made.max_in_batch, 1U);
    EXPECT_NE(made.batching.reason.find(name), std::string::npos) << made.batching.reason;
  }
  void expect_equal(const model_program& made, const std::vector<tensor_map>& requests) {
    EXPECT_EQ(difference_of(made, made.batching, requests), "");
  }
};

TEST_P(model_batching, is_for_nodes_that_carry_the_axis) {
  auto softmax = graph();
  softmax.node("Softmax", {"x"}, {"y"}).with("axis", 1);
  expect_batch(softmax, {1, 5});
  expect_batch(softmax, {4, 5});
  auto flat = graph();
  flat.constant("shape", integers{1, -1})
      .constant("w", numbers(12 * 5), {12, 5})
      .node("Reshape", {"x", "shape"}, {"flat"});
  flat.node("MatMul", {"flat", "w"}, {"y"});
  expect_batch(flat, {1, 3, 4});
  // A model that is exported for one image has its extent in it.
  auto fixed = graph();
  fixed.constant("shape", integers{1, 6, 2, 2})
      .constant("w", numbers(3 * 6 * 9), {3, 6, 3, 3})
      .node("Reshape", {"x", "shape"}, {"images"});
  fixed.node("Conv", {"images", "w"}, {"filtered"}).with("pads", integers{1, 1, 1, 1});
  fixed.node("Relu", {"filtered"}, {"y"});
  expect_batch(fixed, {1, 24});
  auto turned = graph();
  turned.node("Transpose", {"x"}, {"t"}).with("perm", integers{1, 2, 0});
  turned.node("Softmax", {"t"}, {"s"}).with("axis", 0);
  turned.node("Transpose", {"s"}, {"y"}).with("perm", integers{2, 0, 1});
  expect_batch(turned, {1, 3, 4});
  auto norms = graph();
  norms.constant("one", {1, 2, 3}, {3})
      .constant("two", {3, 1, 2}, {3})
      .node("InstanceNormalization", {"x", "one", "two"}, {"i"});
  norms.node("BatchNormalization", {"i", "one", "two", "one", "two"}, {"y"});
  expect_batch(norms, {1, 3, 5});
  auto means = graph();
  means.node("ReduceMean", {"x"}, {"m"}).with("axes", integers{1});
  means.node("Sub", {"x", "m"}, {"y"});
  expect_batch(means, {1, 3, 4});
  // A square of the runs' own.
  auto products = graph();
  products.node("Transpose", {"x"}, {"t"}).with("perm", integers{0, 2, 1});
  products.node("MatMul", {"x", "t"}, {"y"});
  expect_batch(products, {1, 3, 4});
}

TEST_P(model_batching, is_refused_for_nodes_that_mix_requests) {
  const auto refused = [&](const extents& shape, const std::string& name, const auto& add) {
    SCOPED_TRACE(name + " of " + to_string(shape));
    auto g = graph();
    add(g);
    expect_single(g, shape, name);
  };
  for (const std::int64_t batch : {1, 2}) {
    refused({batch, 4}, "mean", [](auto& g) {
      g.node("ReduceMean", {"x"}, {"mean"}).with("axes", integers{0});
      g.node("Sub", {"x", "mean"}, {"y"});
    });
    refused({batch, 4}, "step 'y': softmax mixes axis 0 of x.reshape", [](auto& g) {
      g.constant("shape", integers{-1}).node("Reshape", {"x", "shape"}, {"flat"});
      g.node("Softmax", {"flat"}, {"y"});
    });
    refused({batch, 4}, "first", [](auto& g) {
      g.constant("index", integers{0}).node("Gather", {"x", "index"}, {"first"}).with("axis", 0);
      g.node("Add", {"x", "first"}, {"y"});
    });
    refused({batch, 4}, "soft", [](auto& g) {
      g.node("Softmax", {"x"}, {"soft"}).with("axis", 0);
      g.node("Neg", {"soft"}, {"y"});
    });
    refused({batch, 4}, "sums", [](auto& g) {
      g.number("axis", 0).node("CumSum", {"x", "axis"}, {"sums"});
      g.node("Neg", {"sums"}, {"y"});
    });
    refused({batch, 4}, "best", [](auto& g) {
      g.constant("k", integers{1}).node("TopK", {"x", "k"}, {"best", "where"}).with("axis", 0);
      g.node("Sub", {"x", "best"}, {"y"});
    });
    refused({batch, 4, 4, 4}, "large", [](auto& g) {
      g.constant("sizes", integers{5, 4, 4, 4})
          .node("Resize", {"x", "", "", "sizes"}, {"large"})
          .with("mode", "nearest");
      g.node("Neg", {"large"}, {"y"});
    });
    refused({batch, 4}, "product", [](auto& g) {
      g.node("Transpose", {"x"}, {"t"}).with("perm", integers{1, 0});
      g.node("MatMul", {"x", "t"}, {"product"});
      g.node("Softmax", {"product"}, {"y"});
    });
    refused({batch, 4}, "norm", [](auto& g) {
      g.constant("one", {1}, {1})
          .node("LayerNormalization", {"x", "one"}, {"norm"})
          .with("axis", 0);
      g.node("Neg", {"norm"}, {"y"});
    });
    refused({batch, 4}, "joined", [](auto& g) {
      g.node("Concat", {"x", "x"}, {"joined"}).with("axis", 0);
      g.node("Neg", {"joined"}, {"y"});
    });
    refused({batch, 4}, "more", [](auto& g) {
      g.constant("c", {1, 2, 3, 4}, {1, 4}).node("Concat", {"x", "c"}, {"more"}).with("axis", 0);
      g.node("Neg", {"more"}, {"y"});
    });
    refused({batch, 4}, "tiled", [](auto& g) {
      g.constant("repeats", integers{2, 1}).node("Tile", {"x", "repeats"}, {"tiled"});
      g.node("Neg", {"tiled"}, {"y"});
    });
    refused({batch, 4}, "padded", [](auto& g) {
      g.constant("pads", integers{1, 0, 1, 0}).node("Pad", {"x", "pads"}, {"padded"});
      g.node("Neg", {"padded"}, {"y"});
    });
  }
  refused({2, 4}, "back", [](auto& g) {
    g.constant("start", integers{-1}).constant("end", integers{-9}).constant("axis", integers{0});
    g.constant("step", integers{-1}).node("Slice", {"x", "start", "end", "axis", "step"}, {"back"});
    g.node("Neg", {"back"}, {"y"});
  });
  // A mask that knows which request is the first.
  refused({2, 4}, "masked", [](auto& g) {
    g.constant("mask", {1, 0}, {2, 1}).node("Mul", {"x", "mask"}, {"masked"});
    g.node("Neg", {"masked"}, {"y"});
  });
  // Attention from one request to another.
  refused({2, 3, 4}, "mixed", [](auto& g) {
    g.node("Transpose", {"x"}, {"q"}).with("perm", integers{1, 0, 2});
    g.node("Transpose", {"x"}, {"k"}).with("perm", integers{1, 2, 0});
    g.node("MatMul", {"q", "k"}, {"scores"});
    g.node("Softmax", {"scores"}, {"weights"}).with("axis", 2);
    g.node("MatMul", {"weights", "q"}, {"mixed"});
    g.node("Transpose", {"mixed"}, {"y"}).with("perm", integers{1, 0, 2});
  });
  // An output that is the same for all requests.
  refused({1, 4}, "outputs", [](auto& g) {
    g.node("Shape", {"x"}, {"shape"});
    g.node("ConstantOfShape", {"shape"}, {"y"});
  });
}

// What is computed from the shape of one request is right for each of several.
TEST_P(model_batching, keeps_numbers_of_the_shape_of_one_request) {
  const auto zeros = [&] {
    auto g = graph();
    g.node("Shape", {"x"}, {"shape"});
    g.node("ConstantOfShape", {"shape"}, {"zeros"});
    g.node("Add", {"x", "zeros"}, {"y"});
    return g;
  };
  const auto range = [&] {
    auto g = graph();
    g.number("zero", 0).number("one", 1);
    g.node("Shape", {"x"}, {"shape"});
    g.node("Gather", {"shape", "zero"}, {"count"});
    g.node("Range", {"zero", "count", "one"}, {"range"});
    g.node("Cast", {"range"}, {"numbers"}).with("to", 1);
    g.constant("last", integers{1}).node("Unsqueeze", {"numbers", "last"}, {"column"});
    g.node("Add", {"x", "column"}, {"y"});
    return g;
  };
  for (auto g : {zeros(), range()}) {
    expect_batch(g, {1, 4});        // number 0 is added to each
    expect_single(g, {2, 4}, "y");  // a table for two rows, of a batch that has six
  }
  auto expanded = graph();
  expanded.constant("row", {1, 2, 3, 4}, {1, 4});
  expanded.node("Shape", {"x"}, {"shape"});
  expanded.node("Expand", {"row", "shape"}, {"rows"});
  expanded.node("Mul", {"x", "rows"}, {"y"});
  expect_batch(expanded, {1, 4});
  expect_single(expanded, {2, 4}, "y");
  auto counted = graph();
  counted.number("zero", 0).number("one", 1);
  counted.node("Shape", {"x"}, {"shape"});
  counted.node("Gather", {"shape", "zero"}, {"count"});
  counted.node("Equal", {"count", "one"}, {"is_one"});
  onnx::GraphProto branches[2];
  for (auto& branch : branches) {
    const bool is_then = &branch == branches;
    branch.set_name("branch");
    add_node(branch, is_then ? "Neg" : "Exp", {"x"}, {is_then ? "then" : "else"});
    branch.add_output()->set_name(is_then ? "then" : "else");
  }
  counted.node("If", {"is_one"}, {"y"})
      .with("then_branch", branches[0])
      .with("else_branch", branches[1]);
  expect_batch(counted, {1, 4});
}

TEST_P(model_batching, follows_recurrent_states) {
  onnx_graph g;
  g.input("x").input("h").output("y").output("h_out");
  g.constant("w", numbers(3 * 4 * 5), {1, 12, 5});
  g.constant("r", numbers(3 * 4 * 4), {1, 12, 4});
  g.node("GRU", {"x", "w", "r", "", "", "h"}, {"y", "h_out"}).with("hidden_size", 4);
  const auto made = g.make().program_for(
      specs_of({{"x", random_tensor({6, 1, 5})}, {"h", random_tensor({1, 1, 4})}}), {},
      {.max_in_batch = 64});
  ASSERT_TRUE(made.batching) << made.batching.reason;
  EXPECT_EQ(made.batching.inputs, (axes{1, 1}));
  EXPECT_EQ(made.batching.outputs, (std::vector<std::size_t>{2, 1}));
  EXPECT_EQ(made.max_in_batch, 64U);
  std::vector<tensor_map> requests;
  for (int i = 0; i < 3; ++i) {
    requests.push_back({{"x", random_tensor({6, 1, 5})}, {"h", random_tensor({1, 1, 4})}});
  }
  expect_equal(made, requests);
}

// Of a dimension of extent 1, a node says where it is. States of zeros are made for one sequence.
TEST_P(model_batching, follows_dimensions_of_one_index) {
  onnx_graph g;
  g.input("x").output("y").output("last");
  g.constant("axes", integers{0}).constant("w", numbers(12 * 5), {1, 12, 5});
  g.constant("r", numbers(12 * 4), {1, 12, 4}).number("one", 1).constant("hidden", integers{4});
  g.node("Shape", {"x"}, {"shape"}).with("start", 0).with("end", 1);
  g.constant("direction", integers{1});
  g.node("Concat", {"direction", "shape", "hidden"}, {"state_shape"}).with("axis", 0);
  g.node("ConstantOfShape", {"state_shape"}, {"zeros"});
  g.node("Unsqueeze", {"x", "axes"}, {"sequence"});
  g.node("GRU", {"sequence", "w", "r", "", "", "zeros"}, {"all", "state"}).with("hidden_size", 4);
  g.constant("both", integers{0, 1}).node("Squeeze", {"all", "both"}, {"y"});
  g.node("Squeeze", {"state", "axes"}, {"last"});
  expect_batch(g, {1, 5});
}

TEST_P(model_batching, is_an_option) {
  auto g = graph();
  g.node("Neg", {"x"}, {"y"});
  EXPECT_EQ(model_options{}.max_in_batch, 64U);
  for (const std::size_t none : {0, 1}) {
    const auto made = made_of(g, {1, 3}, {.max_in_batch = none});
    EXPECT_FALSE(made.batching);
    EXPECT_NE(made.batching.reason.find("max_in_batch"), std::string::npos);
    EXPECT_EQ(made.max_in_batch, 1U);
  }
  EXPECT_EQ(made_of(g, {1, 3}, {.max_in_batch = 7}).max_in_batch, 7U);
  EXPECT_TRUE(throws(errc::invalid_argument, "max_in_batch: is 129", [&] {
    (void)made_of(g, {1, 3}, {.max_in_batch = 129});
  }));
  // A batch takes inputs of the shape that the program is for.
  const auto made = made_of(g, {1, 3});
  EXPECT_TRUE(throws(errc::invalid_argument, "x", [&] {
    (void)run(made, {{"x", random_tensor({2, 3})}});
  }));
  for (const bool fits : {true, false}) {
    auto many = graph();
    std::vector<std::string> names;
    for (std::size_t i = 0; i < max_tensors_in_batch - (fits ? 2 : 1); ++i) {
      names.push_back("y" + std::to_string(i));
    }
    for (const auto& name : names) {
      many.output(name.c_str()).node("Exp", {"x"}, {name.c_str()});
    }
    many.node("Neg", {"x"}, {"y"});
    EXPECT_TRUE(made_of(many, {1, 3}).batching);
    EXPECT_EQ(made_of(many, {1, 3}).max_in_batch, fits ? 64U : 1U);
  }
  // There is nothing to batch in inputs without elements or dimensions.
  for (const auto& shape : {extents{}, extents{0, 3}}) {
    const auto single = made_of(g, shape);
    EXPECT_FALSE(single.batching);
    EXPECT_NE(single.batching.reason, "");
    EXPECT_EQ(single.max_in_batch, 1U);
  }
}

INSTANTIATE_TEST_SUITE_P(devices, model_batching, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
