// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/model_source.hpp>
#include <sluice/operations/program.hpp>

#include <map>
#include <string>
#include <vector>

namespace sluice {

/// A program with names, to be served as a model.
///
///     const auto source = std::make_shared<program_source>(
///         spectrogram, std::vector<model_value>{{.name = "clip"}},
///         std::vector<model_value>{{.name = "mel"}});
///
/// Thread-safe.
class SLUICE_EXPORT program_source final : public model_source {
 public:
  /// The program with these inputs and outputs, in its own order. An input with a type or a shape
  /// takes no other one.
  /// @throws error `invalid_argument` if there is no program, it takes scalars, the number of
  /// inputs or outputs is another one, or a name is empty or is that of two inputs or two outputs
  program_source(program what, std::vector<model_value> inputs, std::vector<model_value> outputs);

  [[nodiscard]] const std::vector<model_value>& inputs() const noexcept override { return inputs_; }
  [[nodiscard]] const std::vector<model_value>& outputs() const noexcept override {
    return outputs_;
  }
  /// The program itself, if its steps take inputs with these properties. No input can be bound by
  /// value. The program was built with its own largest number of runs in a batch, so `options` has
  /// no effect; `batching` says so. `cost` is not known.
  /// @throws error `invalid_argument` if an input is missing, is bound, is not an input of the
  /// program, or does not fit its declaration
  /// @throws error what a step refuses, with its name
  [[nodiscard]] model_program program_for(const std::map<std::string, tensor_spec>& specs,
                                          const std::map<std::string, host_tensor>& values,
                                          const model_options& options) const override;

 private:
  program program_;
  std::vector<model_value> inputs_;
  std::vector<model_value> outputs_;
};

}  // namespace sluice
