// SPDX-License-Identifier: Apache-2.0
// What a model's file states.
#include "tests/models/onnx_graph.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

/// "Conv 3, Relu 2, elsewhere.Gelu 1"
std::string text_of(const std::vector<model_operator>& operators) {
  std::string text;
  for (const auto& entry : operators) {
    if (!text.empty()) text += ", ";
    if (!entry.domain.empty()) text += entry.domain + '.';
    text += entry.name + ' ' + std::to_string(entry.nodes);
  }
  return text;
}

TEST(model_summary, has_what_the_file_states) {
  onnx_graph g(13);
  g.message().set_producer_name("test");
  g.message().set_producer_version("1.2");
  auto& other = *g.message().add_opset_import();
  other.set_domain("ai.onnx.ml");
  other.set_version(3);
  g.input("x").output("y").node("Neg", {"x"}, {"y"});
  const auto found = g.make().summary();
  EXPECT_EQ(found.ir_version, 8);
  EXPECT_EQ(found.producer, "test");
  EXPECT_EQ(found.producer_version, "1.2");
  ASSERT_EQ(found.opsets.size(), 2U);
  EXPECT_EQ(found.opsets[0].domain, "");
  EXPECT_EQ(found.opsets[0].version, 13);
  EXPECT_EQ(found.opsets[1].domain, "ai.onnx.ml");
  EXPECT_EQ(found.opsets[1].version, 3);
  EXPECT_EQ(found.parameters, 0U);
  EXPECT_EQ(text_of(found.operators), "Neg 1");
}

TEST(model_summary, counts_nodes_and_constants_of_all_graphs) {
  onnx_graph g;
  g.input("x", {-1, 3}).output("y");
  g.constant("weights", std::vector<float>(6), {2, 3});  // 24 bytes
  g.constant("shape", std::vector<std::int64_t>{1, 2});  // 16 bytes
  onnx::GraphProto branch;
  onnx::TensorProto value;
  value.set_data_type(onnx::TensorProto::UINT8);
  value.add_dims(5);
  value.set_raw_data("12345");  // 5 bytes
  add_node(branch, "Constant", {}, {"bytes"}).with("value", value);
  add_node(branch, "Relu", {"x"}, {"z"});
  branch.add_output()->set_name("z");
  g.node("If", {"x"}, {"y"}).with("then_branch", branch).with("else_branch", branch);
  g.node("Relu", {"x"}, {"a"});
  g.node("Gelu", {"x"}, {"b"});
  g.graph().mutable_node(2)->set_domain("com.microsoft");
  auto& function = *g.message().add_functions();
  function.set_name("scaled");
  add_node(function, "Mul", {"p", "q"}, {"r"});
  const auto found = g.make().summary();
  EXPECT_EQ(text_of(found.operators), "Relu 3, Constant 2, com.microsoft.Gelu 1, If 1, Mul 1");
  EXPECT_EQ(found.parameters, 6U + 2 + 2 * 5);
  EXPECT_EQ(found.parameter_bytes, 24U + 16 + 2 * 5);
}

// Nothing is allocated for a constant, and its size does not overflow.
TEST(model_summary, of_absurd_constants_has_the_largest_number) {
  onnx_graph g;
  g.input("x").output("y").node("Neg", {"x"}, {"y"});
  auto& tensor = *g.graph().add_initializer();
  tensor.set_name("vast");
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (int i = 0; i < 3; ++i) tensor.add_dims(std::int64_t{1} << 40U);
  auto& negative = *g.graph().add_initializer();
  negative.set_name("negative");
  negative.set_data_type(onnx::TensorProto::FLOAT);
  negative.add_dims(-5);
  const auto found = g.make().summary();
  EXPECT_EQ(found.parameters, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(found.parameter_bytes, std::numeric_limits<std::uint64_t>::max());
}

}  // namespace
}  // namespace sluice::test
