// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/batch_axes.hpp>
#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/model_cost.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/tensor_spec.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/extents.hpp>
#include <sluice/runtime/source_location.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// An extent of an input or an output of a model: a number, or a name that stands for any number.
struct model_dimension {
  std::optional<std::int64_t> extent{};  ///< the number, if the model states it
  std::string symbol{};                  ///< the name, if there is one: "batch"
};

/// A declared shape in words: "[batch, 3, 224, 224]".
[[nodiscard]] SLUICE_EXPORT std::string to_string(const std::vector<model_dimension>& shape);

/// An input or an output, as the model declares it.
struct model_value {
  std::string name{};                                   ///< its name in the model
  std::optional<element_type> type{};                   ///< nothing if sluice has no such type
  std::optional<std::vector<model_dimension>> shape{};  ///< nothing if the model leaves it open
};

/// Checks that a tensor of this type and shape fits the declaration of an input.
/// @throws error `invalid_argument` with the name of the input if it does not
SLUICE_EXPORT void require_fit(const model_value& input, element_type type, const extents& shape);

/// The type in which a program computes what its model has in f32. Inputs and outputs keep their
/// types, and so do values of other types. docs/concepts/models.md has the steps that are
/// concerned.
enum class model_precision : std::uint8_t {
  original,  ///< f32
  tf32,      ///< f32; a GPU may round the factors of products and convolutions to TF32
  f16,   ///< products, convolutions and what follows them in f16, with sums in f32; the rest in f32
  bf16,  ///< likewise in bf16
};

/// Options of the program of a model.
struct model_options {
  /// The largest number of requests that a GPU computes together, up to 128, if it is proved that
  /// none of them then has another result; see `model_program::batching`. With 0 or 1, each request
  /// is computed alone. A batch of 64 takes few calls for each request, and larger ones save
  /// little. The first answer does not wait for the executables of batches; see `per_request`.
  std::size_t max_in_batch = 64;
  model_precision precision = model_precision::original;  ///< of values of f32
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
  sluice::program program{};  ///< its inputs and outputs are those below, in order
  /// The inputs of the model that are not bound by value: one name for each input of the program.
  std::vector<std::string> inputs{};
  /// The outputs of the model: one name for each output of the program, and no name twice.
  std::vector<std::string> outputs{};
  /// Properties of the outputs. Requests share programs only if they are stated; see
  /// `load_model::buckets`.
  std::vector<tensor_spec> results{};
  model_cost cost{};  ///< of one run
  /// What has been optimised, in order.
  std::vector<model_optimization> optimizations{};
  /// Where the parts of the requests of a batch lie in the inputs and outputs, as `find_batch_axes`
  /// proves it, or why there is no batch: the name of the node, or that of the option.
  batch_axes batching{};
  /// The largest number of runs that a GPU computes together. 1 if `batching` has a reason, there
  /// are more than `max_tensors_in_batch` inputs and outputs, or the options say so.
  std::size_t max_in_batch = 1;
};

/// The shape of a result, or a parameter of an operation, depends on elements of inputs. They must
/// be bound by value; see `model_source::program_for`.
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

/// A computation with named inputs and outputs, of which programs are made: a `model` read from a
/// file, or a `program_source`. The model actor serves it by name; see `load_model`.
///
/// Any thread may call the functions, also several at once.
class SLUICE_EXPORT model_source {
 public:
  model_source() = default;
  virtual ~model_source() = default;

  /// The inputs that a run gives, in order. They never change, and no two have the same name.
  [[nodiscard]] virtual const std::vector<model_value>& inputs() const noexcept = 0;
  /// The outputs, likewise.
  [[nodiscard]] virtual const std::vector<model_value>& outputs() const noexcept = 0;
  /// Makes the program for inputs with these properties, by name. `values` binds inputs by value:
  /// the program has no such inputs, and keeps the elements, which nobody may write. May take
  /// seconds. It must not wait for a model actor that may be killed meanwhile: the end of a killed
  /// actor waits for the program, and answers nothing until then.
  /// @throws unbound_inputs if inputs must be bound
  /// @throws error if there is no program for such inputs
  [[nodiscard]] virtual model_program program_for(const std::map<std::string, tensor_spec>& specs,
                                                  const std::map<std::string, host_tensor>& values,
                                                  const model_options& options) const = 0;

 protected:
  model_source(const model_source&) = default;
  model_source(model_source&&) = default;
  model_source& operator=(const model_source&) = default;
  model_source& operator=(model_source&&) = default;
};

}  // namespace sluice
