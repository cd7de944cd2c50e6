// SPDX-License-Identifier: Apache-2.0
// The steps of a program as programs of their own.
#include "tests/models/model_device_test.hpp"
#include "tests/support/expect_error.hpp"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

class model_steps_on : public model_device_test {
 protected:
  /// The outputs of a model, computed step by step.
  host_tensors run_steps(const model_steps& parts, const tensor_map& inputs) {
    std::map<std::size_t, host_tensor> values;
    for (const auto& name : parts.inputs) values.emplace(values.size(), inputs.at(name));
    for (const auto& step : parts.steps) {
      EXPECT_EQ(step.what.steps(), 1U) << step.name;
      model_program made{.program = step.what};
      tensor_map operands;
      for (const auto value : step.inputs) {
        made.inputs.push_back(std::to_string(value));
        operands.emplace(made.inputs.back(), values.at(value));
      }
      const auto results = run(made, operands);
      EXPECT_EQ(results.size(), step.outputs.size()) << step.name;
      for (std::size_t i = 0; i < results.size(); ++i) {
        EXPECT_TRUE(values.emplace(step.outputs[i], results[i]).second) << step.name;
      }
    }
    host_tensors outputs;
    for (const auto value : parts.outputs) outputs.push_back(values.at(value));
    return outputs;
  }
};

// A convolution, views of results and of constants, a step with several results, one with a list of
// operands, an input that two steps read, and two outputs.
TEST_P(model_steps_on, compute_what_the_program_computes) {
  const auto channels = between(1, 4);
  const auto filters = between(1, 5);
  const auto count = static_cast<std::size_t>(filters * channels * 9);
  onnx_graph g;
  g.input("x", {-1, -2, -2, -2}).input("s").output("y").output("best");
  auto generator = make_generator();
  g.constant("w", random_values<float>(generator, count), {filters, channels, 3, 3});
  g.constant("flat", std::vector<std::int64_t>{0, -1});
  g.constant("k", std::vector<std::int64_t>{2});
  g.node("Conv", {"x", "w"}, {"c"}).with("pads", std::vector<std::int64_t>{1, 1, 1, 1});
  g.node("Transpose", {"c"}, {"t"}).with("perm", std::vector<std::int64_t>{0, 2, 3, 1});
  g.node("Mul", {"t", "s"}, {"scaled"});
  g.node("Reshape", {"scaled", "flat"}, {"r"});
  g.node("TopK", {"r", "k"}, {"best", "positions"});
  g.node("Concat", {"r", "best", "r"}, {"joined"}).with("axis", 1);
  g.node("Add", {"joined", "s"}, {"y"});
  const auto network = g.make();
  const tensor_map inputs{{"x", random_tensor({2, channels, 4, 5})}, {"s", random_tensor({})}};
  const auto parts = network.steps_for(specs_of(inputs));
  const auto whole = network.program_for(specs_of(inputs));
  EXPECT_EQ(parts.steps.size(), whole.program.steps());
  EXPECT_EQ(parts.inputs, whole.inputs);
  EXPECT_EQ(parts.steps.front().operation, "convolution");
  EXPECT_EQ(parts.steps.front().name, "c");
  const auto found = run_steps(parts, inputs);
  const auto expected = run(whole, inputs);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) expect_near(found[i], expected[i]);
}

TEST_P(model_steps_on, multiply_squares) {
  const tensor_map inputs{{"x", random_tensor({5})}};
  const auto expect_operation = [&](float exponent, const std::vector<std::int64_t>& shape,
                                    const char* operation) {
    onnx_graph g(13);
    g.input("x").output("y").constant("exponent", std::vector<float>{exponent}, shape);
    g.node("Pow", {"x", "exponent"}, {"y"});
    const auto parts = g.make().steps_for(specs_of(inputs));
    ASSERT_EQ(parts.steps.size(), 1U);
    EXPECT_EQ(parts.steps.front().operation, operation);
    if (exponent != 2) return;
    const auto found = run_steps(parts, inputs);
    EXPECT_EQ(found[0].shape(), shape.size() > 1 ? extents({1, 5}) : extents({5}));
    const auto x = inputs.at("x").values<float>();
    for (std::size_t i = 0; i < 5; ++i) EXPECT_FLOAT_EQ(found[0].values<float>()[i], x[i] * x[i]);
  };
  expect_operation(2, {}, "multiply");
  expect_operation(2, {1}, "multiply");
  expect_operation(2, {1, 1}, "power");
  expect_operation(3, {}, "power");
}

TEST_P(model_steps_on, have_no_input_that_is_bound) {
  onnx_graph g;
  g.input("x").input("shape", onnx::TensorProto::INT64).output("y");
  g.node("Reshape", {"x", "shape"}, {"r"});
  g.node("Neg", {"r"}, {"y"});
  const auto network = g.make();
  const auto x = random_tensor({6});
  const host_tensor shape(std::vector<std::int64_t>{2, 3});
  const auto parts = network.steps_for(specs_of({{"x", x}}), {{"shape", shape}});
  EXPECT_EQ(parts.inputs, std::vector<std::string>{"x"});
  EXPECT_EQ(run_steps(parts, {{"x", x}}).front().shape(), (extents{2, 3}));
  EXPECT_THROW((void)network.steps_for(specs_of({{"x", x}, {"shape", shape}})), unbound_inputs);
}

// Each step repeats the views of its operands, so a chain of views counts for each of them.
TEST(model_steps, of_long_chains_of_views_are_bounded) {
  onnx_graph g;
  g.input("x").output("y");
  constexpr int length = 3000;
  std::string last = "x";
  for (int i = 0; i < length; ++i) {
    const auto view = "v" + std::to_string(i);
    const auto negated = "n" + std::to_string(i);
    g.node("Transpose", {last.c_str()}, {view.c_str()});
    g.node("Neg", {view.c_str()}, {negated.c_str()});
    last = view;
  }
  g.node("Neg", {last.c_str()}, {"y"});
  const std::map<std::string, tensor_spec> specs{
      {"x", tensor_spec::row_major(element_type::f32, {2, 3})}};
  const auto network = g.make();
  const model_options as_it_is{.optimize = false};
  EXPECT_EQ(network.program_for(specs, {}, as_it_is).program.steps(), length + 1U);
  EXPECT_TRUE(throws(errc::unsupported, "too many values",
                     [&] { (void)network.steps_for(specs, {}, as_it_is); }));
  // Nothing reads the other steps.
  EXPECT_EQ(network.steps_for(specs).steps.size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(devices, model_steps_on, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
