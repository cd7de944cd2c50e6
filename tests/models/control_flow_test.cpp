// SPDX-License-Identifier: Apache-2.0
// Graphs within nodes, and functions of the model.
#include "tests/models/model_device_test.hpp"

namespace sluice::test {
namespace {

class model_control_flow : public model_device_test {};

onnx::GraphProto branch(const char* op_type) {
  onnx::GraphProto graph;
  add_node(graph, op_type, {"x"}, {"result"});
  graph.add_output()->set_name("result");
  return graph;
}

TEST_P(model_control_flow, never_looks_at_the_other_branch) {
  onnx_graph g;
  g.input("x").input("condition", onnx::TensorProto::BOOL).output("y");
  g.node("If", {"condition"}, {"y"})
      .with("then_branch", branch("Neg"))
      .with("else_branch", branch("OperatorOfTheFuture"));
  const auto network = g.make();
  const auto x = random_tensor({7});
  auto expected = x.to_vector<float>();
  for (auto& value : expected) value = -value;
  expect_near(run(network, {{"x", x}, {"condition", host_tensor(std::vector<bool>{true})}}).front(),
              host_tensor(expected, {7}));
  EXPECT_EQ(bound(), std::set<std::string>{"condition"});
}

TEST_P(model_control_flow, unrolls_loops) {
  // total = x · 2^turns; the totals of all turns are collected.
  onnx::GraphProto body;
  for (const auto* name : {"i", "goes_on", "before"}) body.add_input()->set_name(name);
  add_node(body, "Add", {"before", "before"}, {"after"});
  add_node(body, "Identity", {"goes_on"}, {"still"});
  for (const auto* name : {"still", "after", "after"}) body.add_output()->set_name(name);
  onnx_graph g;
  g.input("x").output("total").output("totals").number("turns", 40);
  g.node("Loop", {"turns", "", "x"}, {"total", "totals"}).with("body", body);
  const auto x = random_tensor({3});
  const auto results = run(g.make(), {{"x", x}});
  std::vector<float> totals;
  auto total = x.to_vector<float>();
  for (int turn = 0; turn < 40; ++turn) {
    for (auto& value : total) value *= 2;
    totals.insert(totals.end(), total.begin(), total.end());
  }
  expect_near(results[0], host_tensor(total, {3}));
  expect_near(results[1], host_tensor(totals, {40, 3}));
}

TEST_P(model_control_flow, unrolls_scans) {
  // Running sums along the second axis, from its end.
  onnx::GraphProto body;
  for (const auto* name : {"before", "column"}) body.add_input()->set_name(name);
  add_node(body, "Add", {"before", "column"}, {"after"});
  for (const auto* name : {"after", "after"}) body.add_output()->set_name(name);
  onnx_graph g;
  g.input("x").input("start").output("last").output("sums");
  g.node("Scan", {"start", "x"}, {"last", "sums"})
      .with("body", body)
      .with("num_scan_inputs", 1)
      .with("scan_input_axes", std::vector<std::int64_t>{1})
      .with("scan_input_directions", std::vector<std::int64_t>{1})
      .with("scan_output_axes", std::vector<std::int64_t>{1});
  const std::vector<float> x{1, 2, 3, 10, 20, 30};
  const auto results =
      run(g.make(), {{"x", {x, {2, 3}}}, {"start", host_tensor(std::vector<float>{0, 100})}});
  EXPECT_EQ(results[0].to_vector<float>(), (std::vector<float>{6, 160}));
  EXPECT_EQ(results[1].to_vector<float>(), (std::vector<float>{3, 5, 6, 130, 150, 160}));
}

TEST_P(model_control_flow, puts_functions_in_the_place_of_their_nodes) {
  onnx_graph g;
  auto& function = *g.message().add_functions();
  function.set_domain("own");
  function.set_name("twice_leaky");
  function.add_input("a");
  function.add_output("c");
  function.add_attribute("slope");
  function.add_opset_import()->set_version(17);
  add_node(function, "LeakyRelu", {"a"}, {"b"})
      .with_reference("alpha", "slope", onnx::AttributeProto::FLOAT);
  add_node(function, "LeakyRelu", {"b"}, {"c"});
  g.message().add_opset_import()->set_domain("own");
  g.input("x").output("y");
  g.node("twice_leaky", {"x"}, {"y"}).with("slope", 0.5);
  g.graph().mutable_node(0)->set_domain("own");
  const auto results = run(g.make(), {{"x", {std::vector<float>{-4, 4}, {2}}}});
  expect_near(results.front(), {std::vector<float>{-4 * 0.5F * 0.01F, 4}, {2}});
}

TEST_P(model_control_flow, gives_functions_the_defaults_of_attributes) {
  // A message of a field that ONNX 1.12 does not know: FunctionProto.attribute_proto.
  onnx::FunctionProto function;
  function.set_domain("own");
  function.set_name("leaky");
  function.add_input("a");
  function.add_output("b");
  function.add_opset_import()->set_version(17);
  add_node(function, "LeakyRelu", {"a"}, {"b"})
      .with_reference("alpha", "slope", onnx::AttributeProto::FLOAT);
  onnx::AttributeProto attribute;
  attribute.set_name("slope");
  attribute.set_type(onnx::AttributeProto::FLOAT);
  attribute.set_f(0.25F);
  const auto value = attribute.SerializeAsString();
  auto bytes = function.SerializeAsString();
  bytes += static_cast<char>(11U << 3U | 2U);
  bytes += static_cast<char>(value.size());
  bytes += value;
  onnx_graph g;
  ASSERT_TRUE(g.message().add_functions()->ParseFromString(bytes));
  g.input("x").output("y").output("z");
  g.node("leaky", {"x"}, {"y"});
  g.node("leaky", {"x"}, {"z"}).with("slope", 0.5);
  for (auto& node : *g.graph().mutable_node()) node.set_domain("own");
  const auto results = run(g.make(), {{"x", {std::vector<float>{-4, 4}, {2}}}});
  EXPECT_EQ(results[0].to_vector<float>(), (std::vector<float>{-1, 4}));
  EXPECT_EQ(results[1].to_vector<float>(), (std::vector<float>{-2, 4}));
}

INSTANTIATE_TEST_SUITE_P(devices, model_control_flow, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
