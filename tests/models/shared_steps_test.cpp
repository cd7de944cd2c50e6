// SPDX-License-Identifier: Apache-2.0
// Steps that nothing reads, and steps that compute the same thing.
#include "tests/models/optimization_test.hpp"

namespace sluice::test {
namespace {

class shared_steps : public optimization_test {
 protected:
  void expect(std::string_view nodes, const std::string& rules,
              std::vector<std::string> outputs = {"y"}) {
    const std::int64_t width = between(1, 6);
    expect_rules({.nodes = nodes,
                  .inputs = {{"x", random_tensor({2, 4, width})}},
                  .constants = {{"c", random_tensor({width})}},
                  .outputs = std::move(outputs)},
                 rules);
  }
};

TEST_P(shared_steps, leave_out_what_nothing_reads) {
  expect("a = Neg x\nb = Exp a\ny = Abs x", "unused unused");
  expect("a = Neg x\nt = Transpose a perm=[2,1,0]\nb = Exp t\ny = Abs a", "unused");
  expect("a = Neg x\ny = Abs a", "");
}

TEST_P(shared_steps, compute_a_step_once) {
  expect("a = Neg x\nb = Neg x\ny = Add a b", "shared");
  // Tanh keeps the error of the sum small.
  expect("a = Add x c\nb = Add x c\nd = Tanh a\ne = Tanh b\ny = Mul d e", "shared shared");
  // Equal constants, and equal views.
  expect("a = Mul x 3\nb = Mul x 3\ny = Add a b", "shared");
  expect(
      "s = Transpose x perm=[0,2,1]\nt = Transpose x perm=[0,2,1]\na = Neg s\nb = Neg t\n"
      "y = Add a b",
      "shared");
  expect("a = ReduceSum x\nb = ReduceSum x\ny = Add a b", "shared");
  expect("a = ReduceMax x axes=[1]\nb = ReduceMax x axes=[1]\ny = Add a b", "shared");
  // A step with several results, one of them a view that both read.
  expect(
      "a = Neg x\nb = Neg x\nt = Transpose b perm=[0,2,1]\nd = Exp t\ne = Abs a\n"
      "f = Transpose e perm=[0,2,1]\ny = Add d f",
      "shared");
}

TEST_P(shared_steps, are_outputs_as_well) {
  expect("y = Neg x\nz = Neg x", "shared", {"y", "z"});
  expect("a = Neg x\nb = Neg x\ny = Exp b", "shared", {"a", "y"});
}

TEST_P(shared_steps, differ_in_operands_and_parameters) {
  expect("a = Neg x\nb = Abs x\ny = Add a b", "");
  expect("a = Mul x 3\nb = Mul x 4\ny = Add a b", "");
  expect("a = Softmax x axis=1\nb = Softmax x axis=2\ny = Add a b", "");
  expect("a = ReduceMax x axes=[1]\nb = ReduceMax x axes=[0]\ny = Add a b", "");
  expect("a = ReduceMax x\nb = ReduceMax x axes=[0]\ny = Add a b", "");
  expect("a = Elu x alpha=0.5\nb = Elu x alpha=0.25\ny = Add a b", "");
  expect("a = Elu x alpha=0.0\nb = Elu x alpha=-0.0\ny = Add a b", "");
  expect(
      "s = Transpose x perm=[0,2,1]\nt = Transpose x perm=[2,0,1]\na = Neg s\nb = Exp t\n"
      "r = ReduceSum a\nq = ReduceSum b\ny = Add r q",
      "");
  expect(
      "a = Mul x 0.0\nb = Mul x -0.0\nd = Div 1 a\ne = Div 1 b\nf = Equal d e\n"
      "y = Where f x x",
      "");
}

TEST_P(shared_steps, have_several_results) {
  onnx_graph g;
  g.input("x").output("y").output("i");
  g.constant("k", std::vector<std::int64_t>{2});
  g.node("TopK", {"x", "k"}, {"a", "unread"});
  g.node("TopK", {"x", "k"}, {"b", "i"});
  g.node("Add", {"a", "b"}, {"y"});
  const tensor_map inputs{{"x", random_tensor({3, 5})}};
  const auto network = g.make();
  const auto made = network.program_for(specs_of(inputs));
  EXPECT_EQ(rules_of(made), "shared");
  const auto found = run(made, inputs);
  const auto expected = run(network.program_for(specs_of(inputs), {}, {.optimize = false}), inputs);
  for (std::size_t i = 0; i < found.size(); ++i) expect_near(found[i], expected[i]);
}

// The rules look at functions and at unrolled loops, too.
TEST_P(shared_steps, are_in_functions_and_loops) {
  onnx_graph g;
  auto& function = *g.message().add_functions();
  function.set_domain("test");
  function.set_name("Silu");
  function.add_input("x");
  function.add_output("y");
  function.add_opset_import()->set_version(17);
  add_node(function, "Sigmoid", {"x"}, {"s"});
  add_node(function, "Mul", {"x", "s"}, {"y"});
  auto& import = *g.message().add_opset_import();
  import.set_domain("test");
  import.set_version(1);
  onnx::GraphProto body;
  for (const auto* const name : {"turn", "before", "state"}) body.add_input()->set_name(name);
  for (const auto* const name : {"after", "next"}) body.add_output()->set_name(name);
  add_node(body, "Identity", {"before"}, {"after"});
  add_node(body, "Silu", {"state"}, {"next"});
  body.mutable_node(1)->set_domain("test");
  g.input("x").output("y").number("turns", 3);
  g.node("Loop", {"turns", "", "x"}, {"y"}).with("body", body);
  const tensor_map inputs{{"x", random_tensor({2, 7})}};
  const auto network = g.make();
  const auto made = network.program_for(specs_of(inputs));
  EXPECT_EQ(rules_of(made), "silu silu silu");
  const auto parts = network.steps_for(specs_of(inputs));
  ASSERT_EQ(parts.steps.size(), 3U);
  for (const auto& step : parts.steps) EXPECT_EQ(step.operation, "silu");
  const auto expected = run(network.program_for(specs_of(inputs), {}, {.optimize = false}), inputs);
  expect_near(run(made, inputs).front(), expected.front());
}

// They have the same operands, and are compared with few others.
TEST(optimization, of_steps_with_many_parameters_is_fast) {
  onnx_graph g;
  g.input("x").output("y");
  std::string sum = "x";
  for (int i = 0; i < 20'000; ++i) {
    const auto next = "n" + std::to_string(i);
    g.node("Elu", {"x"}, {("e" + next).c_str()}).with("alpha", 0.5 + i);
    g.node("Add", {sum.c_str(), ("e" + next).c_str()}, {next.c_str()});
    sum = next;
  }
  g.node("Neg", {sum.c_str()}, {"y"});
  const std::map<std::string, tensor_spec> specs{
      {"x", tensor_spec::row_major(element_type::f32, {2})}};
  EXPECT_EQ(g.make().program_for(specs).program.steps(), 40'001U);
}

// Ten thousand nodes of each kind that rules look at.
TEST(optimization, of_long_models_is_fast) {
  onnx_graph g;
  g.input("x").output("y");
  g.constant("c", {3.F}, {});
  std::string last = "x";
  for (int i = 0; i < 10'000; ++i) {
    const auto next = "n" + std::to_string(i);
    g.node(i % 3 == 0 ? "Add" : "Mul", {last.c_str(), i % 2 == 0 ? "c" : last.c_str()},
           {next.c_str()});
    last = next;
  }
  g.node("Neg", {last.c_str()}, {"y"});
  const auto network = g.make();
  const std::map<std::string, tensor_spec> specs{
      {"x", tensor_spec::row_major(element_type::f32, {2})}};
  EXPECT_EQ(network.program_for(specs).program.steps(), 10'001U);
}

INSTANTIATE_TEST_SUITE_P(devices, shared_steps, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
