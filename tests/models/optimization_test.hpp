// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/models/model_device_test.hpp"
#include "tests/models/node_text.hpp"

#include <array>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::test {

/// Computes graphs in each type, optimised, and compares the results with those in f64 as the graph
/// states them.
class optimization_test : public model_device_test {
 protected:
  /// The names of the rules that have been applied, but for `left_out`: "layer_norm norm_scale".
  static std::string rules_of(const model_program& made, std::string_view left_out = {}) {
    std::string rules;
    for (const auto& done : made.optimizations) {
      if (done.rule == left_out) continue;
      rules += (rules.empty() ? "" : " ") + done.rule;
      EXPECT_NE(done.node, "");
    }
    return rules;
  }
  static constexpr std::array real_types{element_type::f16, element_type::bf16, element_type::f32,
                                         element_type::f64};

  /// The graph of nodes in a type. Inputs are f32. The first `inputs` are values that a run gives,
  /// the `constants` are known.
  static model model_of(const std::vector<node_text>& nodes, const tensor_map& inputs,
                        const tensor_map& constants, element_type type, element_type computed,
                        const std::vector<std::string>& outputs) {
    onnx_graph g;
    const auto cast = [&](const std::string& name) {
      g.node("Cast", {(name + ".f32").c_str()}, {(name + ".rounded").c_str()})
          .with("to", onnx_type(type));
      g.node("Cast", {(name + ".rounded").c_str()}, {name.c_str()}).with("to", onnx_type(computed));
    };
    for (const auto& [name, x] : inputs) {
      g.input((name + ".f32").c_str());
      cast(name);
    }
    for (const auto& [name, x] : constants) {
      g.constant((name + ".f32").c_str(), x.to_vector<float>(),
                 {x.shape().begin(), x.shape().end()});
      cast(name);
    }
    add_nodes(g, nodes, computed);
    for (const auto& name : outputs) g.output(name.c_str());
    return g.make();
  }
  static std::map<std::string, tensor_spec> input_specs(const tensor_map& inputs) {
    std::map<std::string, tensor_spec> specs;
    for (const auto& [name, x] : inputs) {
      specs.emplace(name + ".f32", tensor_spec::row_major(x.type(), x.shape()));
    }
    return specs;
  }
  host_tensors results_of(const model_program& made, const tensor_map& inputs) {
    tensor_map named;
    for (const auto& [name, x] : inputs) named.emplace(name + ".f32", x);
    return run(made, named);
  }

  /// ‖found - expected‖ / ‖expected‖
  static double distance(const host_tensor& found, const host_tensor& expected) {
    EXPECT_EQ(found.shape(), expected.shape());
    const auto a = found.to(element_type::f64).to_vector<double>();
    const auto b = expected.to(element_type::f64).to_vector<double>();
    double difference = 0;
    double sum = 0;
    for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
      difference += (a[i] - b[i]) * (a[i] - b[i]);
      sum += b[i] * b[i];
    }
    return std::sqrt(difference) / std::sqrt(sum > 0 ? sum : 1);
  }
  static double bound_of(element_type type) {
    return type == element_type::f64   ? 1e-12
           : type == element_type::f32 ? 1e-5
           : type == element_type::f16 ? 2e-3
                                       : 1e-2;
  }

  struct graph_case {
    std::string_view nodes;
    tensor_map inputs{};
    tensor_map constants{};
    std::vector<std::string> outputs{"y"};
    std::vector<element_type> types{real_types.begin(), real_types.end()};
    element_type reference = element_type::f64;
  };
  /// Expects that these rules are applied, in this order, and that the results are right. Without
  /// rules, the results are not looked at. Images of 16 bits may also lie in another order.
  void expect_rules(const graph_case& tested, const std::string& rules) {
    const auto nodes = parse_nodes(tested.nodes);
    for (const auto type : tested.types) {
      SCOPED_TRACE(std::string(tested.nodes) + std::string(to_string(type)));
      const auto network =
          model_of(nodes, tested.inputs, tested.constants, type, type, tested.outputs);
      const auto made = network.program_for(input_specs(tested.inputs));
      EXPECT_EQ(rules_of(made, "channels_last"), rules) << made.program.text();
      const bool has_copies = rules_of(made) != rules;
      const auto unchanged =
          network.program_for(input_specs(tested.inputs), {}, {.optimize = false});
      EXPECT_EQ(rules_of(unchanged), "");
      if (rules.empty()) {
        if (!has_copies) {
          EXPECT_EQ(made.program.steps(), unchanged.program.steps());
        }
        continue;
      }
      if (!has_copies) {
        EXPECT_LT(made.program.steps(), unchanged.program.steps());
        EXPECT_LE(made.cost.intermediate_bytes, unchanged.cost.intermediate_bytes);
      }
      const auto found = results_of(made, tested.inputs);
      const auto reference =
          model_of(nodes, tested.inputs, tested.constants, type, tested.reference, tested.outputs);
      const auto expected =
          results_of(reference.program_for(input_specs(tested.inputs), {}, {.optimize = false}),
                     tested.inputs);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].type(), type);
        EXPECT_LE(distance(found[i], expected[i]), bound_of(type));
      }
    }
  }
};

}  // namespace sluice::test
