// SPDX-License-Identifier: Apache-2.0
// All reasons why there is no program of a model.
#include "tests/models/onnx_graph.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

using named_specs = std::map<std::string, tensor_spec>;

named_specs of_x() {
  return {{"x", tensor_spec::row_major(element_type::f32, {2, 3})}};
}

/// The refusals of a model with the input x of shape (2, 3): "node (operator): reason".
std::vector<std::string> refusals_of(const onnx_graph& g) {
  std::vector<std::string> texts;
  for (const auto& refusal : g.make().refusals(of_x())) {
    texts.push_back(refusal.node + " (" + refusal.operator_name + "): " + refusal.reason);
  }
  return texts;
}

using texts = std::vector<std::string>;

TEST(refusals, of_a_model_with_a_program_are_none) {
  onnx_graph g;
  g.input("x").output("y").node("Neg", {"x"}, {"y"});
  EXPECT_EQ(refusals_of(g), texts{});
}

// Nodes that depend on a refused one are not refused for that.
TEST(refusals, name_each_node_that_cannot_be_computed) {
  onnx_graph g;
  g.input("x").output("y").output("z");
  g.node("Future", {"x"}, {"a"});
  g.node("Neg", {"a"}, {"b"});
  g.node("Softmax", {"x"}, {"c"}).with("axis", 2);
  g.node("Add", {"b", "c"}, {"y"});
  g.node("Relu", {"x"}, {"d"});
  g.node("Other", {"d"}, {"z"});
  g.graph().mutable_node(5)->set_domain("elsewhere");
  g.graph().mutable_node(5)->set_name("last");
  EXPECT_EQ(refusals_of(g),
            (texts{"a (Future): sluice does not have this operator",
                   "c (Softmax): axis: is 2, but there are 2 dimensions",
                   "last (Other): operators of the domain 'elsewhere' are not supported"}));
  const auto all = g.make().refusals(of_x());
  EXPECT_EQ(all[0].code, errc::unsupported);
  EXPECT_EQ(all[1].code, errc::invalid_argument);
  EXPECT_EQ(all[2].domain, "elsewhere");
}

// The operator and the attributes of a node are known without its inputs.
TEST(refusals, name_unknown_operators_behind_a_refused_node) {
  onnx_graph g;
  g.input("x").output("y");
  g.node("Future", {"x"}, {"a"});
  g.node("Past", {"a"}, {"b"});
  g.node("Softmax", {"b"}, {"c"}).with("colour", 2);
  g.node("Softmax", {"c"}, {"y"}).with("axis", 9);
  EXPECT_EQ(refusals_of(g), (texts{"a (Future): sluice does not have this operator",
                                   "b (Past): sluice does not have this operator",
                                   "c (Softmax): colour: is no attribute of Softmax in version 17 "
                                   "of the operator set"}));
}

TEST(refusals, name_nodes_within_graphs_and_functions_once) {
  onnx_graph g;
  g.input("x").output("y").output("z");
  g.number("turns", 3);
  onnx::GraphProto body;
  for (const auto* name : {"turn", "condition", "state"}) body.add_input()->set_name(name);
  add_node(body, "Future", {"state"}, {"unused"});
  add_node(body, "Neg", {"state"}, {"next"});
  body.add_output()->set_name("condition");
  body.add_output()->set_name("next");
  g.node("Loop", {"turns", "", "x"}, {"y"}).with("body", body);
  auto& function = *g.message().add_functions();
  function.set_name("shifted");
  function.set_domain("own");
  auto& opset = *function.add_opset_import();
  opset.set_version(17);
  function.add_input("p");
  function.add_output("q");
  function.add_output("r");
  add_node(function, "Past", {"p"}, {"q"});
  add_node(function, "Neg", {"p"}, {"r"});
  for (int i = 0; i < 2; ++i) {
    const auto* const known = i == 0 ? "k" : "l";
    g.node("shifted", {"x"}, {i == 0 ? "u" : "v", known});
    g.graph().mutable_node(g.graph().node_size() - 1)->set_domain("own");
  }
  g.node("Add", {"k", "l"}, {"z"});  // its values are known, unlike u and v
  EXPECT_EQ(refusals_of(g), (texts{"unused (Future): sluice does not have this operator",
                                   "q (Past): sluice does not have this operator"}));
}

TEST(refusals, name_inputs_that_must_be_bound) {
  onnx_graph g;
  g.input("x").input("shape", onnx::TensorProto::INT64).output("y").output("z");
  g.node("Reshape", {"x", "shape"}, {"y"});
  g.node("Future", {"x"}, {"z"});
  auto properties = of_x();
  properties.emplace("shape", tensor_spec::row_major(element_type::i64, {1}));
  const auto found = g.make().refusals(properties);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].node, "y");
  EXPECT_EQ(found[0].unbound, std::vector<std::string>{"shape"});
  EXPECT_TRUE(found[1].unbound.empty());
  const auto rest =
      g.make().refusals(of_x(), {{"shape", host_tensor(std::vector<std::int64_t>{-1})}});
  ASSERT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest[0].node, "z");
}

TEST(refusals, may_be_about_the_whole_model) {
  onnx_graph future(29);
  future.input("x").output("y").node("Neg", {"x"}, {"y"});
  const auto found = future.make().refusals(of_x());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].node, "");
  EXPECT_NE(found[0].reason.find("version 29 of the operator set"), std::string::npos);

  onnx_graph g;
  g.input("x").output("y").node("Neg", {"x"}, {"z"});
  EXPECT_EQ(refusals_of(g), texts{" (): y: the output has no value"});
}

// A node that uses up the budget is one refusal, whatever follows.
TEST(refusals, end_with_the_budget_of_the_import) {
  onnx_graph g;
  g.input("x").output("y");
  g.node("Neg", {"x"}, {"v0"});
  for (int i = 0; i < 17; ++i) {
    auto& function = *g.message().add_functions();
    function.set_name("f" + std::to_string(i));
    function.set_domain("own");
    function.add_opset_import()->set_version(17);
    function.add_opset_import()->set_domain("own");
    function.add_input("p");
    function.add_output("q");
    for (int call = 0; call < 2; ++call) {
      const std::string inner = i == 0 ? "Neg" : "f" + std::to_string(i - 1);
      const auto* const input = call == 0 ? "p" : "h";
      add_node(function, inner.c_str(), {input}, {call == 0 ? "h" : "q"});
      if (i > 0) function.mutable_node(call)->set_domain("own");
    }
  }
  g.node("f16", {"x"}, {"y"});
  g.graph().mutable_node(1)->set_domain("own");
  g.node("Future", {"x"}, {"w"});
  const auto found = g.make().refusals(of_x());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].node, "");
  EXPECT_NE(found[0].reason.find("too many nodes"), std::string::npos) << found[0].reason;
}

TEST(refusals, are_printable) {
  onnx_graph g;
  g.input("x").output("y");
  g.node("Softmax", {"x"}, {"y"}).with("a\nb\x80", 1);
  const auto found = g.make().refusals(of_x());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].reason.find("a?b?: is no attribute"), 0U) << found[0].reason;
}

TEST(refusals, need_inputs_that_fit) {
  onnx_graph g;
  g.input("x", {2, 3}).output("y").node("Neg", {"x"}, {"y"});
  EXPECT_TRUE(throws(errc::invalid_argument, "test.onnx: x: the input is not given",
                     [&] { (void)g.make().refusals({}); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "test.onnx: x: has the shape [2]", [&] {
    (void)g.make().refusals({{"x", tensor_spec::row_major(element_type::f32, {2})}});
  }));
}

}  // namespace
}  // namespace sluice::test
