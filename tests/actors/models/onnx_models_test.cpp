// SPDX-License-Identifier: Apache-2.0
// Models of ONNX that are served by name, beside double-precision numbers.
#include "tests/actors/session_test.hpp"
#include "tests/models/onnx_graph.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/actors/models.hpp>
#include <sluice/models/model.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

class served_onnx_models : public session_test {
 protected:
  model_description load(const onnx_graph& graph, model_options options = {}) {
    return s().ask<model_description>(device().models(),
                                      load_model{.name = "network",
                                                 .source = std::make_shared<model>(graph.make()),
                                                 .options = options});
  }
  [[nodiscard]] host_tensors results(std::map<std::string, run_input> inputs) {
    return s().ask<host_tensors>(device().models(),
                                 run_model_to_host{.name = "network", .inputs = std::move(inputs)});
  }
  /// relu(x W) with this W of the shape (5, 3).
  static onnx_graph layer(const std::vector<float>& weights) {
    onnx_graph g;
    g.input("x", std::vector<std::int64_t>{-1, 5}).output("y");
    g.constant("w", weights, {5, 3});
    g.node("MatMul", {"x", "w"}, {"z"});
    g.node("Relu", {"z"}, {"y"});
    return g;
  }
  static void expect_layer(const host_tensor& y, const std::vector<float>& x,
                           const std::vector<float>& weights) {
    const auto rows = x.size() / 5;
    ASSERT_EQ(y.shape(), (extents{static_cast<std::int64_t>(rows), 3}));
    const auto found = y.to_vector<float>();
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < 3; ++j) {
        double sum = 0;
        for (std::size_t k = 0; k < 5; ++k)
          sum += double{x[i * 5 + k]} * double{weights[k * 3 + j]};
        EXPECT_NEAR(found[i * 3 + j], std::max(sum, 0.0), 1e-5);
      }
    }
  }
};

TEST_P(served_onnx_models, take_inputs_of_any_shape_that_fits) {
  const auto weights = s().numbers<float>(15);
  const auto described = load(layer(weights));
  ASSERT_EQ(described.inputs.size(), 1U);
  EXPECT_EQ(to_string(*described.inputs[0].shape), "[n, 5]");
  EXPECT_EQ(described.inputs[0].type, element_type::f32);
  for (const std::size_t rows : {1, 4, 7, 1, 0}) {
    const auto x = s().numbers<float>(rows * 5);
    const auto found = results({{"x", host_tensor(x, {static_cast<std::int64_t>(rows), 5})}});
    expect_layer(found[0], x, weights);
  }
  EXPECT_TRUE(throws(errc::invalid_argument, "x: has the shape [2, 4]", [&] {
    (void)results({{"x", host_tensor(s().numbers<float>(8), {2, 4})}});
  }));
  EXPECT_EQ(s().ask<model_description>(device().models(), describe_model{"network"}).programs, 4U);
}

TEST_P(served_onnx_models, compute_requests_together) {
  const auto weights = s().numbers<float>(15);
  (void)load(layer(weights), {.max_in_batch = 8});
  std::vector<std::vector<float>> xs;
  std::vector<caf::message> requests;
  for (int i = 0; i < 40; ++i) {
    xs.push_back(s().numbers<float>(5));
    requests.push_back(caf::make_message(
        run_model_to_host{.name = "network", .inputs = {{"x", host_tensor(xs.back(), {1, 5})}}}));
  }
  const auto answers = s().ask_all<host_tensors>(untyped(device().models()), std::move(requests));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    ASSERT_TRUE(succeeded(answers[i]));
    expect_layer(answers[i].value->front(), xs[i], weights);
  }
}

TEST_P(served_onnx_models, bind_shapes_that_are_inputs) {
  onnx_graph g;
  g.input("x").input("shape", onnx::TensorProto::INT64).output("y");
  g.node("Reshape", {"x", "shape"}, {"y"});
  (void)load(g);
  const auto x = s().numbers<float>(12);
  for (const auto& shape : {extents{3, 4}, extents{12}, extents{2, 1, 6}, extents{3, 4}}) {
    const auto found =
        results({{"x", x}, {"shape", std::vector<std::int64_t>(shape.begin(), shape.end())}});
    EXPECT_EQ(found[0].shape(), shape);
    EXPECT_EQ(found[0].to_vector<float>(), x);
  }
  const auto on_device = s().put(std::vector<std::int64_t>{3, 4});
  EXPECT_TRUE(throws(errc::invalid_argument, "shape: must lie in host memory", [&] {
    (void)results({{"x", x}, {"shape", on_device}});
  }));
  EXPECT_TRUE(throws(errc::invalid_argument, "test.onnx", [&] {
    (void)results({{"x", x}, {"shape", std::vector<std::int64_t>{5, 5}}});
  }));
}

// A condition that depends on one input, and what is computed then on another one.
TEST_P(served_onnx_models, bind_one_input_after_the_other) {
  onnx_graph g;
  g.input("x").input("c", onnx::TensorProto::BOOL).input("shape", onnx::TensorProto::INT64);
  g.output("y");
  onnx::GraphProto reshaped;
  reshaped.set_name("reshaped");
  add_node(reshaped, "Reshape", {"x", "shape"}, {"a"});
  reshaped.add_output()->set_name("a");
  onnx::GraphProto negated;
  negated.set_name("negated");
  add_node(negated, "Neg", {"x"}, {"b"});
  negated.add_output()->set_name("b");
  g.node("If", {"c"}, {"y"}).with("then_branch", reshaped).with("else_branch", negated);
  (void)load(g);
  const auto x = s().numbers<float>(6);
  const auto run = [&](bool condition, std::vector<std::int64_t> shape) {
    return results({{"x", x},
                    {"c", host_tensor(std::vector<bool>{condition}, {})},
                    {"shape", std::move(shape)}})
        .front();
  };
  EXPECT_EQ(run(true, {2, 3}).shape(), (extents{2, 3}));
  EXPECT_EQ(run(true, {3, 2}).shape(), (extents{3, 2}));
  for (const std::int64_t unused : {1, 2}) {
    const auto found = run(false, {unused}).to_vector<float>();
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(found[i], -x[i]);
  }
  EXPECT_TRUE(throws(errc::invalid_argument, "x: the input is not given", [&] {
    (void)results(
        {{"c", host_tensor(std::vector<bool>{true}, {})}, {"shape", std::vector<std::int64_t>{6}}});
  }));
  // Two of the condition that is true, and one of that which is not, whatever the shape is.
  EXPECT_EQ(s().ask<model_description>(device().models(), describe_model{"network"}).programs, 3U);
}

TEST_P(served_onnx_models, name_the_node_that_cannot_be_computed) {
  onnx_graph g;
  g.input("x").output("y");
  g.node("NoSuchOperator", {"x"}, {"y"});
  (void)load(g);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(throws(errc::unsupported, "NoSuchOperator", [&] {
      (void)results({{"x", s().numbers<float>(3)}});
    }));
  }
}

INSTANTIATE_TEST_SUITE_P(devices, served_onnx_models, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
