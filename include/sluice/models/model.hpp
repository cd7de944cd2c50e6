// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/models/model_refusal.hpp>
#include <sluice/models/model_steps.hpp>
#include <sluice/models/model_summary.hpp>
#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/model_source.hpp>
#include <sluice/operations/tensor_spec.hpp>

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sluice {

namespace models {

class chain_source;
class import_source;

}  // namespace models

struct model_chain;

/// A model in the format of ONNX, of which programs are made.
///
///     const auto classifier = model::open("classifier.onnx");
///     const auto image = tensor_spec::row_major(element_type::f32, {1, 3, 224, 224});
///     const model_program made = classifier.program_for({{"image", image}});
///     request(self, programs, caf::infinite, run_to_host{made.program, {pixels}})
///
/// The model actor serves it by name, given as `std::make_shared<model>(classifier)`; see
/// `load_model`. Copies share the model. Thread-safe.
class SLUICE_EXPORT model final : public model_source {
 public:
  /// Reads a file. Constants may have their elements in files in the same folder.
  /// @throws error `invalid_argument` if there is no such file, or it is not a model
  [[nodiscard]] static model open(const std::filesystem::path& path);
  /// Reads a model from memory. `name` stands for the file in errors.
  /// @throws error `invalid_argument` if the bytes are not a model
  [[nodiscard]] static model parse(std::span<const std::byte> bytes, std::string name = "model");

  /// Makes one model of several, whose programs are single programs: a run is one launch, batches
  /// and optimises across the models, and keeps the values between them on the device. The models
  /// may be chains themselves. `model_chain` describes it.
  ///
  /// The declared types and shapes are checked here, and those of a run by `program_for`.
  /// @throws error `invalid_argument` with the name of a step or a value if a map names an input or
  /// an output that the model does not have, an input of a model or of the chain is not connected,
  /// a value has no or several producers, a type or a shape does not fit, the steps are a cycle, or
  /// a name is empty or is that of two steps, inputs or outputs
  [[nodiscard]] static model chain(const model_chain& description);

  /// The inputs that have no value in the model itself, in order.
  [[nodiscard]] const std::vector<model_value>& inputs() const noexcept override;
  /// The outputs, in order.
  [[nodiscard]] const std::vector<model_value>& outputs() const noexcept override;
  /// The contents of the file: its version, its operators and the size of its constants. They are
  /// what the file states; nothing of it is checked. Those of a chain are those of all its steps;
  /// its version is the newest one, and it has no producer.
  [[nodiscard]] model_summary summary() const;

  /// Makes the program for inputs with these properties, by name; runs give them in row-major
  /// order. Runs with inputs of another type or shape are refused. A symbol has one extent in all
  /// inputs.
  ///
  /// What depends on shapes alone is computed while the program is made: shapes of reshaped
  /// tensors, for example. `values` binds inputs by value. They become constants, what depends on
  /// them alone is computed at once, and the program has no such inputs. Where a shape or a
  /// parameter depends on the elements of an input, that input must be bound.
  ///
  /// Requests to the program batch by themselves if it is proved that their data does not mix; the
  /// member `batching` has the reason if it is not. What is computed from a shape is that of one
  /// request, in a batch as well.
  /// @throws error `invalid_argument` if an input is missing, is not an input of the model, or does
  /// not fit its declaration, if `max_in_batch` exceeds 128, or if `precision` is no enumerator
  /// @throws error `unsupported` with the name of an input that sluice has no type for, or of a
  /// node that sluice cannot compute, if the model is of a later version of ONNX, or if it needs
  /// too many nodes, turns of loops or values
  /// @throws error `invalid_argument` if a node is not valid
  /// @throws error `out_of_memory` if there is no memory for a constant
  /// @throws unbound_inputs if inputs must be bound
  [[nodiscard]] model_program program_for(const std::map<std::string, tensor_spec>& specs,
                                          const std::map<std::string, host_tensor>& values = {},
                                          const model_options& options = {}) const override;
  /// The steps of that program as programs of their own, to time them or to look at the values
  /// between them on any device. `max_in_batch` is not used.
  ///
  ///     const auto parts = classifier.steps_for({{"image", image}});
  ///     std::map<std::size_t, tensor> values{{0, pixels}};
  ///     for (const auto& step : parts.steps) {
  ///       run request{.what = step.what};
  ///       for (const auto input : step.inputs) request.inputs.emplace_back(values.at(input));
  ///       const auto results = ask<tensors>(system, device.programs(), std::move(request));
  ///       for (std::size_t i = 0; i < results.size(); ++i) values[step.outputs[i]] = results[i];
  ///     }
  ///
  /// Together they take longer than the program: no steps are fused, none is captured, and steps
  /// whose operands are constants are not computed ahead.
  /// @throws error as `program_for`
  [[nodiscard]] model_steps steps_for(const std::map<std::string, tensor_spec>& specs,
                                      const std::map<std::string, host_tensor>& values = {},
                                      const model_options& options = {}) const;
  /// Every reason why `program_for` makes no program for these inputs; none if it makes one.
  ///
  ///     for (const auto& refusal : classifier.refusals({{"image", image}})) {
  ///       std::cout << refusal.node << " (" << refusal.operator_name << "): " << refusal.reason;
  ///     }
  ///
  /// `program_for` ends with the first node that sluice cannot compute. Here, the results of such a
  /// node are unknown. A node that depends on an unknown value is refused only if its operator or
  /// one of its attributes is unknown, and the graphs within it are not looked at. A node of a
  /// function or a loop is listed once.
  /// @throws error as `program_for` if an input is missing, is not an input of the model, does not
  /// fit its declaration, or has no type that sluice has
  [[nodiscard]] std::vector<model_refusal> refusals(
      const std::map<std::string, tensor_spec>& specs,
      const std::map<std::string, host_tensor>& values = {}) const;

 private:
  friend class models::chain_source;
  explicit model(std::shared_ptr<const models::import_source> source) noexcept;

  std::shared_ptr<const models::import_source> source_;
};

}  // namespace sluice
