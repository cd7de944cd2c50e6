// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/messages.hpp"
#include "models/model_file.hpp"
#include "models/node.hpp"
#include "models/operator_table.hpp"
#include "models/precision.hpp"
#include "models/step_scope.hpp"
#include "models/value.hpp"

#include <sluice/models/model_refusal.hpp>

#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace sluice::models {

/// Nodes that cannot be imported.
class refused_nodes {
 public:
  /// Adds a node, once.
  void add(const onnx::NodeProto& message, const error& reason, std::vector<std::string> unbound);
  /// Adds a reason that is about no single node.
  void add(const error& reason) {
    all_.push_back({.code = reason.code(), .reason = reason.what()});
  }

  [[nodiscard]] std::vector<model_refusal>& all() noexcept { return all_; }

 private:
  std::unordered_set<const onnx::NodeProto*> known_;
  std::vector<model_refusal> all_;
};

/// A value depends on a node that has been refused.
class unknown_output final : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override {
    return "depends on a node that has been refused";
  }
};

/// Adds the steps of the graphs of a model to a program.
class graph_import {
 public:
  /// `input_names` are those of the inputs of the model. With `refused`, the import goes on after a
  /// node that cannot be imported, and adds it there.
  graph_import(const model_file& file, step_scope& scope, std::vector<std::string> input_names,
               refused_nodes* refused = nullptr,
               model_precision precision = model_precision::original);

  /// Adds the steps of the model's graph. Returns its outputs.
  /// @throws error with the name of the node that cannot be imported
  /// @throws unknown_output with `refused`, if an output depends on such a node
  [[nodiscard]] results import_model(std::map<std::string, value> inputs);

 private:
  /// A value; nothing if it depends on a node that has been refused.
  using possible_value = std::optional<value>;
  /// The values that nodes see by name: those of their graph, and of the graphs around it.
  struct visible_values {
    std::map<std::string, possible_value> values{};
    const visible_values* outer = nullptr;
    /// Of the function that the graph is the body of.
    const attribute_map* attributes = nullptr;
    const std::map<std::string, std::int64_t>* opsets = nullptr;

    /// nullptr if there is none.
    [[nodiscard]] const possible_value* find(const std::string& name) const;
    /// @throws error `invalid_argument` if there is none
    [[nodiscard]] const possible_value& output(const std::string& name) const;
  };
  /// The inputs of a node.
  struct node_inputs {
    std::vector<std::optional<value>> values{};  ///< nothing if the input is not given, or unknown
    std::vector<bool> are_unknown{};
    bool has_unknown = false;
    source_sets::set sources = 0;  ///< of all values
  };
  /// Counts how deep nodes are nested.
  class nesting;

  /// Nodes of functions and of graphs within nodes may be nested so deep.
  static constexpr int max_depth = 64;

  [[nodiscard]] const value& initializer(const onnx::TensorProto& tensor);
  [[nodiscard]] results import_graph(const onnx::GraphProto& graph, visible_values& visible);
  void import_node(const onnx::NodeProto& message, visible_values& visible);
  void add_node(const onnx::NodeProto& message, visible_values& visible);
  [[nodiscard]] node_inputs inputs_of(const onnx::NodeProto& message,
                                      const visible_values& visible);
  /// Makes the outputs of a node unknown, unless they have values.
  static void forget_outputs(const onnx::NodeProto& message, visible_values& visible);
  [[nodiscard]] std::vector<possible_value> import_function(const onnx::FunctionProto& function,
                                                            const attribute_map& attributes,
                                                            const node_inputs& inputs);
  [[nodiscard]] results import_operator(const onnx::NodeProto& message, attribute_map attributes,
                                        node_inputs inputs, visible_values& visible);
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
  refused_nodes* refused_;
  precision_import precision_;
  int depth_ = 0;
  /// One for all turns of a loop.
  std::unordered_map<const onnx::TensorProto*, value> initializers_;
};

}  // namespace sluice::models
