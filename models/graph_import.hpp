// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/messages.hpp"
#include "models/model_file.hpp"
#include "models/node.hpp"
#include "models/operator_table.hpp"
#include "models/step_scope.hpp"
#include "models/value.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace sluice::models {

/// Adds the steps of the graphs of a model to a program.
class graph_import {
 public:
  /// `input_names` are those of the inputs of the model.
  graph_import(const model_file& file, step_scope& scope, std::vector<std::string> input_names);

  /// Adds the steps of the model's graph. Returns its outputs.
  /// @throws error with the name of the node that cannot be imported
  [[nodiscard]] results import_model(std::map<std::string, value> inputs);

 private:
  /// The values that nodes see by name: those of their graph, and of the graphs around it.
  struct visible_values {
    std::map<std::string, value> values{};
    const visible_values* outer = nullptr;
    /// Of the function that the graph is the body of.
    const attribute_map* attributes = nullptr;
    const std::map<std::string, std::int64_t>* opsets = nullptr;

    [[nodiscard]] const value* find(const std::string& name) const;
  };
  /// Nodes of functions and of graphs within nodes may be nested so deep.
  static constexpr int max_depth = 64;

  [[nodiscard]] const value& initializer(const onnx::TensorProto& tensor);
  [[nodiscard]] results import_graph(const onnx::GraphProto& graph, visible_values& visible);
  void import_node(const onnx::NodeProto& message, visible_values& visible);
  [[nodiscard]] results import_function(const onnx::FunctionProto& function,
                                        const attribute_map& attributes,
                                        const std::vector<std::optional<value>>& inputs);
  [[nodiscard]] results import_operator(const onnx::NodeProto& message, attribute_map attributes,
                                        std::vector<std::optional<value>> inputs,
                                        visible_values& visible);
  /// The results of a node, computed; nothing if some of its inputs are not known, or if the node
  /// is too large.
  [[nodiscard]] std::optional<results> fold(const operator_entry& entry,
                                            const onnx::NodeProto& message,
                                            const attribute_map& attributes,
                                            const std::vector<std::optional<value>>& inputs,
                                            std::int64_t opset);

  const model_file& file_;
  step_scope& scope_;
  std::vector<std::string> input_names_;
  std::map<std::string, std::int64_t> opsets_;
  int depth_ = 0;
  /// One for all turns of a loop.
  std::unordered_map<const onnx::TensorProto*, value> initializers_;
};

}  // namespace sluice::models
