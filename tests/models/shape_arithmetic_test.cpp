// SPDX-License-Identifier: Apache-2.0
// What depends on shapes alone is computed while the program is made.
#include "tests/models/model_device_test.hpp"
#include "tests/support/expect_error.hpp"

namespace sluice::test {
namespace {

class shape_arithmetic : public model_device_test {};

TEST_P(shape_arithmetic, leaves_no_step) {
  // The shape (a, b, c) becomes (a · b, c) by Shape, Gather, Mul, Unsqueeze, Concat and Reshape.
  onnx_graph g;
  g.input("x").output("y").number("zero", 0).number("one", 1).number("two", 2);
  g.constant("axis", std::vector<std::int64_t>{0});
  g.node("Shape", {"x"}, {"shape"});
  g.node("Gather", {"shape", "zero"}, {"a"});
  g.node("Gather", {"shape", "one"}, {"b"});
  g.node("Gather", {"shape", "two"}, {"c"});
  g.node("Mul", {"a", "b"}, {"rows"});
  g.node("Unsqueeze", {"rows", "axis"}, {"rows_1"});
  g.node("Unsqueeze", {"c", "axis"}, {"c_1"});
  g.node("Concat", {"rows_1", "c_1"}, {"matrix"}).with("axis", 0);
  g.node("Reshape", {"x", "matrix"}, {"flat"});
  g.node("Relu", {"flat"}, {"y"});
  const auto network = g.make();
  for (int round = 0; round < 3; ++round) {
    const extents shape{between(1, 5), between(1, 5), between(1, 5)};
    const auto x = random_tensor(shape);
    const auto made = network.program_for(specs_of({{"x", x}}));
    EXPECT_EQ(made.program.steps(), 1U) << made.program.text();
    const extents expected{shape[0] * shape[1], shape[2]};
    ASSERT_EQ(made.results.front().shape, expected);
    auto values = x.to_vector<float>();
    for (auto& value : values) value = value > 0 ? value : 0;
    expect_near(run(network, {{"x", x}}).front(), host_tensor(values, expected));
  }
}

TEST_P(shape_arithmetic, of_large_constants_remains_a_step) {
  onnx_graph g;
  g.input("x").output("y");
  const std::int64_t n = 600;  // more than 1 MiB
  g.constant("w", std::vector<float>(static_cast<std::size_t>(n * n), 0.5F), {n, n});
  g.node("Neg", {"w"}, {"minus"});
  g.node("Add", {"x", "minus"}, {"y"});
  const auto network = g.make();
  const auto x = random_tensor({1});
  EXPECT_EQ(network.program_for(specs_of({{"x", x}})).program.steps(), 2U);
  const auto expected = x.to_vector<float>()[0] - 0.5F;
  expect_near(run(network, {{"x", x}}).front(),
              {std::vector<float>(static_cast<std::size_t>(n * n), expected), {n, n}});
}

TEST_P(shape_arithmetic, binds_what_it_needs_by_value) {
  onnx_graph g;
  g.input("x").input("shape", onnx::TensorProto::INT64).input("unused").output("y");
  g.node("Identity", {"shape"}, {"same"});
  g.node("Reshape", {"x", "same"}, {"flat"});
  g.node("Relu", {"flat"}, {"y"});
  const auto network = g.make();
  const auto x = random_tensor({2, 6});
  const tensor_map inputs{{"x", x},
                          {"shape", host_tensor(std::vector<std::int64_t>{3, -1})},
                          {"unused", random_tensor({1})}};
  try {
    (void)network.program_for(specs_of(inputs));
    FAIL() << "the shape is not known";
  } catch (const unbound_inputs& e) {
    EXPECT_EQ(e.names(), std::vector<std::string>{"shape"});
    EXPECT_EQ(e.code(), errc::invalid_argument);
    EXPECT_NE(std::string(e.what()).find("(Reshape): shape"), std::string::npos) << e.what();
  }
  EXPECT_EQ(run(network, inputs).front().shape(), (extents{3, 4}));
  EXPECT_EQ(bound(), std::set<std::string>{"shape"});
  // A bound input is none of the program.
  auto specs = specs_of(inputs);
  specs.erase("shape");
  const auto made = network.program_for(specs, {{"shape", inputs.at("shape")}});
  EXPECT_EQ(made.inputs, (std::vector<std::string>{"x", "unused"}));
  EXPECT_EQ(made.program.inputs(), 2U);
}

TEST_P(shape_arithmetic, names_constants_by_their_values) {
  onnx_graph g;
  g.input("x").output("y").constant("weights", {1, 2}, {2});
  g.node("Neg", {"weights"}, {"negated"});
  g.node("Add", {"x", "weights"}, {"sum"});
  g.node("Mul", {"sum", "negated"}, {"y"});
  const auto text = g.make().program_for(specs_of({{"x", random_tensor({2})}})).program.text();
  for (const auto* line : {"\nweights = constant f32[2]\n", "\nnegated = constant f32[2]\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << text;
  }
}

TEST_P(shape_arithmetic, gives_known_values_and_inputs_as_outputs) {
  onnx_graph g;
  g.input("x").output("shape").output("x").output("turned");
  g.node("Shape", {"x"}, {"shape"});
  g.node("Transpose", {"x"}, {"turned"});
  const auto x = random_tensor({2, 3});
  const auto results = run(g.make(), {{"x", x}});
  EXPECT_EQ(results[0].to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 3}));
  expect_near(results[1], x);
  const auto values = x.to_vector<float>();
  expect_near(results[2], host_tensor(std::vector<float>{values[0], values[3], values[1], values[4],
                                                         values[2], values[5]},
                                      {3, 2}));
}

INSTANTIATE_TEST_SUITE_P(devices, shape_arithmetic, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
