// SPDX-License-Identifier: Apache-2.0
// The loops and functions of a small file may stand for any number of nodes. The import ends then.
#include "models/import_budget.hpp"
#include "models/source_sets.hpp"
#include "tests/models/model_device_test.hpp"
#include "tests/support/expect_error.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

using models::import_budget;

void add_values(onnx::GraphProto& graph, bool inputs, const std::vector<std::string>& names) {
  for (const auto& name : names) {
    (inputs ? graph.add_input() : graph.add_output())->set_name(name);
  }
}
std::vector<std::string> numbered(const std::string& name, int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(name + std::to_string(i));
  return names;
}

/// The body of a loop that carries `count` values, with as many loops within it as `depth` says.
/// `collected` times the first value is collected.
onnx::GraphProto loop_body(int depth, int count, int collected = 0) {
  const auto level = std::to_string(depth);
  const auto carried = numbered("v" + level + "_", count);
  onnx::GraphProto body;
  add_values(body, true, {"turn" + level, "goes_on" + level});
  add_values(body, true, carried);
  auto results = carried;
  if (depth > 0) {
    results = numbered("w" + level + "_", count);
    auto node = add_node(body, "Loop", {"turns", ""}, {});
    for (const auto& name : carried) body.mutable_node(0)->add_input(name);
    for (const auto& name : results) body.mutable_node(0)->add_output(name);
    node.with("body", loop_body(depth - 1, count));
  }
  add_values(body, false, {"goes_on" + level});
  add_values(body, false, results);
  for (int i = 0; i < collected; ++i) add_values(body, false, {carried.front()});
  return body;
}

/// A model with one loop of 1024 turns.
model model_with_loop(int depth, int count, int collected = 0) {
  onnx_graph g;
  g.input("x").output("y").number("turns", 1024);
  auto node = g.node("Loop", {"turns", ""}, {"y"});
  for (int i = 0; i < count; ++i) g.graph().mutable_node(0)->add_input("x");
  for (int i = 1; i < count; ++i) g.graph().mutable_node(0)->add_output("last" + std::to_string(i));
  node.with("body", loop_body(depth, count, collected));
  return g.make();
}

std::map<std::string, tensor_spec> spec_of_x(const extents& shape) {
  return {{"x", tensor_spec::row_major(element_type::f32, shape)}};
}

TEST(model_limits, end_nested_loops) {
  EXPECT_NO_THROW((void)model_with_loop(0, 1).program_for(spec_of_x({2})));
  EXPECT_TRUE(throws(errc::unsupported, "too many turns of loops: at most 100000",
                     [] { (void)model_with_loop(3, 1).program_for(spec_of_x({2})); }));
}

TEST(model_limits, end_loops_with_many_values) {
  EXPECT_TRUE(throws(errc::unsupported, "too many values: at most 2000000",
                     [] { (void)model_with_loop(1, 1000).program_for(spec_of_x({2})); }));
  EXPECT_TRUE(throws(errc::unsupported, "too many values",
                     [] { (void)model_with_loop(0, 1, 20'000).program_for(spec_of_x({2})); }));
}

TEST(model_limits, end_batches_of_scans) {
  onnx::GraphProto body;  // without nodes
  add_values(body, true, {"element"});
  add_values(body, false, {"element"});
  onnx_graph g(8);
  g.input("x").output("y");
  g.node("Scan", {"", "x"}, {"y"}).with("body", body).with("num_scan_inputs", 1);
  const auto scanned = g.make();
  EXPECT_NO_THROW((void)scanned.program_for(spec_of_x({3, 2, 1})));
  const auto many = std::int64_t{1} << 40U;
  EXPECT_TRUE(throws(errc::unsupported, "too many turns of loops", [&] {
    (void)scanned.program_for(spec_of_x({many, 1, 1}));
  }));
}

TEST(model_limits, leave_room_for_models_of_many_nodes) {
  onnx_graph g;
  g.input("x").output("v100000");
  g.node("Neg", {"x"}, {"v1"});
  for (int i = 1; i < 100'000; ++i) {
    g.node("Neg", {}, {});
    auto& node = *g.graph().mutable_node(i);
    node.add_input("v" + std::to_string(i));
    node.add_output("v" + std::to_string(i + 1));
  }
  EXPECT_EQ(g.make().program_for(spec_of_x({2})).program.steps(), 100'000U);
}

TEST(model_limits, keep_large_results_as_steps) {
  // Each node fills 1,000,000 bytes. They are computed until the budget is used up.
  constexpr int count = 300;
  onnx_graph g;
  g.input("x").constant("shape", std::vector<std::int64_t>{250'000});
  for (int i = 0; i < count; ++i) {
    const auto number = std::to_string(i);
    g.node("ConstantOfShape", {"shape"}, {("c" + number).c_str()});
    g.node("Add", {("c" + number).c_str(), "x"}, {("y" + number).c_str()});
    g.output(("y" + number).c_str());
  }
  // They are the same, and would be shared.
  const auto imported = g.make().program_for(spec_of_x({}), {}, {.optimize = false});
  const auto computed = static_cast<int>(import_budget::max_bytes / 1'000'000);
  // The shape and the number that is repeated are constants of 8 and 4 bytes.
  EXPECT_NEAR(static_cast<int>(imported.program.steps()), count + count - computed, 2);
}

TEST(model_limits, take_no_memory_for_positions_of_large_images) {
  const auto extent = std::int64_t{1} << 20U;
  onnx_graph g(19);
  g.input("x").input("offset").output("y").constant("w", {1}, {1, 1, 1, 1});
  g.node("DeformConv", {"x", "w", "offset"}, {"y"});
  const auto spec = [&](std::int64_t channels) {
    return tensor_spec::row_major(element_type::f32, {1, channels, extent, extent});
  };
  const auto imported = g.make().program_for({{"x", spec(1)}, {"offset", spec(2)}});
  EXPECT_EQ(imported.results.front().shape, (extents{1, 1, extent, extent}));
}

TEST(model_limits, name_all_inputs_of_long_chains) {
  constexpr int count = 20'000;
  onnx_graph g;
  std::map<std::string, tensor_spec> specs;
  std::string sum;
  for (int i = 0; i < count; ++i) {
    const auto name = "x" + std::to_string(i);
    g.input(name.c_str(), onnx::TensorProto::INT64);
    specs.emplace(name, tensor_spec::row_major(element_type::i64, {1}));
    const auto next = "sum" + std::to_string(i);
    if (i > 0) g.node("Add", {sum.c_str(), name.c_str()}, {next.c_str()});
    sum = i > 0 ? next : name;
  }
  g.node("ConstantOfShape", {sum.c_str()}, {"y"});
  g.output("y");
  try {
    (void)g.make().program_for(specs);
    FAIL() << "the shape is not known";
  } catch (const unbound_inputs& e) {
    EXPECT_EQ(e.names().size(), std::size_t{count});
  }
}

TEST(source_sets, are_unions_of_inputs) {
  auto generator = make_generator();
  models::source_sets sets;
  std::vector<models::source_sets::set> numbers{0};
  std::vector<std::set<std::uint32_t>> expected{{}};
  const auto any = [&](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(generator);
  };
  for (std::uint32_t i = 0; i < 300; ++i) {
    const auto a = any(numbers.size());
    const auto b = any(numbers.size());
    if (any(3) == 0) {
      numbers.push_back(sets.single(i));
      expected.push_back({i});
    } else {
      numbers.push_back(sets.join(numbers[a], numbers[b]));
      expected.push_back(expected[a]);
      expected.back().insert(expected[b].begin(), expected[b].end());
    }
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(sets.elements(numbers[i]),
              models::input_numbers(expected[i].begin(), expected[i].end()));
  }
}

TEST(import_budget, limits_what_is_computed) {
  import_budget budget;
  EXPECT_FALSE(budget.take_computation(import_budget::max_bytes_of_node + 1, 0));
  for (std::size_t bytes = 0; bytes < import_budget::max_bytes; bytes += std::size_t{1} << 20U) {
    EXPECT_TRUE(budget.take_computation(std::size_t{1} << 20U, 1));
  }
  EXPECT_FALSE(budget.take_computation(std::size_t{1} << 20U, 1));
  EXPECT_TRUE(budget.take_computation(100, 1));  // a shape
  EXPECT_FALSE(budget.take_computation(2000, import_budget::max_work));
  EXPECT_TRUE(throws(errc::unsupported, "too much is computed",
                     [&] { (void)budget.take_computation(100, import_budget::max_work); }));
}

}  // namespace
}  // namespace sluice::test
