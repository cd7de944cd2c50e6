// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/batching.hpp"
#include "models/graph_import.hpp"
#include "models/import_budget.hpp"
#include "models/import_source.hpp"
#include "models/step_scope.hpp"
#include "models/value.hpp"

#include <sluice/models/model.hpp>
#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/tensor_spec.hpp>

#include <map>
#include <string>
#include <vector>

namespace sluice::models {

/// One import of a model, for inputs with certain properties and values. It refers to itself, so it
/// stays where it is made.
class model_import {
 public:
  /// With `optimizes`, the import itself may choose how values lie in memory.
  /// @throws error `invalid_argument` if an input is missing, is not an input of the model, or does
  /// not fit its declaration
  /// @throws error `unsupported` with the name of an input that sluice has no type for
  model_import(const import_source& source, const std::map<std::string, tensor_spec>& specs,
               const std::map<std::string, host_tensor>& values, bool optimizes = false);
  model_import(const model_import&) = delete;
  model_import& operator=(const model_import&) = delete;
  ~model_import() = default;

  /// The program. Called once.
  /// @throws error as `model::program_for`
  [[nodiscard]] model_program make_program(const model_options& options) &&;
  /// The program, step by step. Called once.
  /// @throws error as `model::program_for`
  [[nodiscard]] model_steps make_steps(const model_options& options) &&;
  /// Why there is no program; empty if there is one. Called once.
  [[nodiscard]] std::vector<model_refusal> refusals() &&;

 private:
  /// Adds all steps. Returns the outputs.
  [[nodiscard]] std::vector<value> import_outputs(model_precision precision,
                                                  refused_nodes* refused = nullptr);
  /// Optimises the steps, if the import does. Returns all that has been done.
  std::vector<model_optimization> optimize(const std::vector<value>& outputs);

  const import_source& source_;
  import_budget budget_;
  step_scope scope_;
  std::vector<std::string> names_;           // of all inputs
  std::map<std::string, value> visible_;     // the inputs
  std::vector<std::string> program_inputs_;  // those that are not bound
  std::vector<program_input> input_specs_;   // of these
};

}  // namespace sluice::models
