// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/models/model_cost.hpp>
#include <sluice/models/model_refusal.hpp>
#include <sluice/models/model_steps.hpp>
#include <sluice/models/model_summary.hpp>
#include <sluice/operations/batch_axes.hpp>
#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/tensor_spec.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/source_location.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

namespace models {

class model_file;

}  // namespace models

/// An extent of an input or an output of a model: a number, or a name that stands for any number.
struct model_dimension {
  std::optional<std::int64_t> extent{};  ///< the number, if the model states it
  std::string symbol{};                  ///< the name, if there is one: "batch"
};

/// An input or an output, as the model declares it.
struct model_value {
  std::string name{};                                   ///< its name in the model
  std::optional<element_type> type{};                   ///< nothing if sluice has no such type
  std::optional<std::vector<model_dimension>> shape{};  ///< nothing if the model leaves it open
};

/// Options of the program of a model.
struct model_options {
  /// The largest number of requests that a GPU computes together, up to 128, if it is proved that
  /// none of them then has another result; see `model_program::batching`. With 0 or 1, each request
  /// is computed alone. A batch of 64 takes few calls for each request, and larger ones save
  /// little. Before the first answer, an executable is made for each power of two up to this
  /// number.
  std::size_t max_in_batch = 1;
  /// Whether steps are left out, shared and replaced by faster ones, as `model_program` lists them
  /// in `optimizations`.
  bool optimize = true;
};

/// A change of the program of a model that makes it faster.
struct model_optimization {
  std::string rule{};  ///< the name of the rule: "layer_norm"; docs/concepts/models.md lists them
  std::string node{};  ///< the node whose step is left out, or computes what others did as well
};

/// A program that computes a model for inputs of certain shapes.
struct model_program {
  sluice::program program{};           ///< its inputs and outputs are those below, in order
  std::vector<std::string> inputs{};   ///< inputs of the model that are not bound by value
  std::vector<std::string> outputs{};  ///< outputs of the model
  std::vector<tensor_spec> results{};  ///< properties of the outputs
  model_cost cost{};                   ///< of one run
  /// What has been optimised, in order.
  std::vector<model_optimization> optimizations{};
  /// Where the parts of the requests of a batch lie in the inputs and outputs, as `find_batch_axes`
  /// proves it, or why there is no batch: the name of the node, or that of the option.
  batch_axes batching{};
  /// The largest number of runs that a GPU computes together. 1 if `batching` has a reason, an
  /// input or an output has the requests along another axis than 0, there are more than four inputs
  /// and outputs, or the options say so.
  std::size_t max_in_batch = 1;
};

/// The shape of a result, or a parameter of an operation, depends on elements of inputs. They must
/// be bound by value; see `model::program_for`.
class SLUICE_EXPORT unbound_inputs : public error {
 public:
  /// The error `invalid_argument` with this text, about the inputs `names`.
  unbound_inputs(const std::string& message, std::vector<std::string> names,
                 source_location location = source_location::current())
      : error(errc::invalid_argument, message, location),
        names_(std::make_shared<const std::vector<std::string>>(std::move(names))) {}

  /// The inputs, in the order of the model.
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return *names_; }

 private:
  std::shared_ptr<const std::vector<std::string>> names_;
};

/// A model in the format of ONNX, of which programs are made.
///
///     const auto classifier = model::open("classifier.onnx");
///     const auto image = tensor_spec::row_major(element_type::f32, {1, 3, 224, 224});
///     const model_program made = classifier.program_for({{"image", image}});
///     request(self, programs, caf::infinite, run_to_host{made.program, {pixels}})
///
/// Copies share the model. Thread-safe.
class SLUICE_EXPORT model {
 public:
  /// Reads a file. Constants may have their elements in files in the same folder.
  /// @throws error `invalid_argument` if there is no such file, or it is not a model
  [[nodiscard]] static model open(const std::filesystem::path& path);
  /// Reads a model from memory. `name` stands for the file in errors.
  /// @throws error `invalid_argument` if the bytes are not a model
  [[nodiscard]] static model parse(std::span<const std::byte> bytes, std::string name = "model");

  /// The inputs that have no value in the model itself, in order.
  [[nodiscard]] const std::vector<model_value>& inputs() const noexcept;
  /// The outputs, in order.
  [[nodiscard]] const std::vector<model_value>& outputs() const noexcept;
  /// The contents of the file: its version, its operators and the size of its constants. They are
  /// what the file states; nothing of it is checked.
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
  /// not fit its declaration, or if `max_in_batch` exceeds 128
  /// @throws error `unsupported` with the name of an input that sluice has no type for, or of a
  /// node that sluice cannot compute, if the model is of a later version of ONNX, or if it needs
  /// too many nodes, turns of loops or values
  /// @throws error `invalid_argument` if a node is not valid
  /// @throws error `out_of_memory` if there is no memory for a constant
  /// @throws unbound_inputs if inputs must be bound
  [[nodiscard]] model_program program_for(const std::map<std::string, tensor_spec>& specs,
                                          const std::map<std::string, host_tensor>& values = {},
                                          const model_options& options = {}) const;
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
  explicit model(std::shared_ptr<const models::model_file> file) noexcept;

  std::shared_ptr<const models::model_file> file_;
};

}  // namespace sluice
