// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/derived_constants.hpp"
#include "models/value.hpp"

#include <sluice/models/model_summary.hpp>
#include <sluice/operations/model_source.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace sluice::models {

class refused_nodes;

/// Where the steps of an import go, and how it treats nodes.
struct import_target {
  step_scope* scope = nullptr;
  std::vector<std::string> input_names{};  ///< of the model that is imported as a whole
  refused_nodes* refused = nullptr;        ///< as `graph_import` has it
  model_precision precision = model_precision::original;
};

/// What programs are made of: a file, or a chain of models. Immutable, and thread-safe.
class import_source {
 public:
  import_source() = default;
  import_source(const import_source&) = delete;
  import_source& operator=(const import_source&) = delete;
  virtual ~import_source() = default;

  [[nodiscard]] virtual const std::string& name() const noexcept = 0;
  [[nodiscard]] virtual const std::vector<model_value>& inputs() const noexcept = 0;
  [[nodiscard]] virtual const std::vector<model_value>& outputs() const noexcept = 0;
  [[nodiscard]] virtual model_summary summary() const = 0;
  /// @throws error `unsupported` with the name of an input, by number, if it is declared as
  /// something else than a tensor of a type that sluice has
  virtual void require_tensor(std::size_t input) const = 0;
  /// Adds the steps of all graphs. Returns the outputs, in order.
  /// @throws error with the name of the node that cannot be imported
  /// @throws unknown_output if the target has `refused`, and an output depends on such a node
  [[nodiscard]] virtual results import(const import_target& target,
                                       std::map<std::string, value> inputs) const = 0;
  /// The constants that the optimisation computes.
  [[nodiscard]] derived_constants& derived() const noexcept { return derived_; }
  /// Drops all constants that imports have computed and no program uses.
  virtual void drop_unused_constants() const noexcept { derived_.drop_unused(); }

 private:
  mutable derived_constants derived_;
};

}  // namespace sluice::models
