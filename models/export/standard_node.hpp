// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/export/attribute_writer.hpp"
#include "models/export/operation_form.hpp"
#include "models/export/standard_form.hpp"
#include "models/messages.hpp"

#include <sluice/operations.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::models {

/// Writes a step as a node of ONNX. Its functions do not fail, so a form asks everything before it
/// calls the first of them.
class standard_node {
 public:
  standard_node(const step_description& step, onnx::NodeProto& message) noexcept
      : step_(step), message_(message), attributes_(message) {}

  /// The operation, if the step has this type.
  template <class Operation>
  [[nodiscard]] std::optional<Operation> operation() const {
    return detail::operation_of<Operation>(step_.operation, step_.scalars);
  }
  [[nodiscard]] bool has_input(std::size_t operand) const { return !step_.inputs[operand].empty(); }
  /// The properties of an operand or of a result; nullptr if they are not known.
  ///@{
  [[nodiscard]] const tensor_spec* spec(std::size_t operand) const {
    return step_.specs[operand] ? &*step_.specs[operand] : nullptr;
  }
  [[nodiscard]] const tensor_spec* result() const {
    return step_.results.front() ? &*step_.results.front() : nullptr;
  }
  ///@}
  /// Whether an attribute that is a FLOAT has this number: exactly, or as f32 where the step
  /// computes in f32.
  [[nodiscard]] bool is_float(double number) const {
    if (is_exact_float(number)) return true;
    const auto* const x = spec(0);
    return x != nullptr &&
           (x->type == element_type::f16 || x->type == element_type::bf16 ||
            x->type == element_type::f32) &&
           is_in_range_of_float(number);
  }

  /// Names the operator, with these operands as inputs. One that is not given is left out.
  bool write(const char* op_type, std::initializer_list<std::size_t> operands) {
    message_.set_op_type(op_type);
    for (const auto operand : operands) add_input(step_.inputs[operand]);
    return true;
  }
  /// Likewise with all operands that are given, as those of a list.
  bool write_list(const char* op_type) {
    message_.set_op_type(op_type);
    for (const auto& input : step_.inputs) {
      if (!input.empty()) add_input(input);
    }
    return true;
  }
  /// Adds an input with the elements of a constant.
  void add_integers(const char* name, std::span<const std::int64_t> values) {
    const std::vector<std::int64_t> elements(values.begin(), values.end());
    add_input(step_.add_parameter(name, host_tensor(elements)));
  }
  void add_integers(const char* name, const extents& values) {
    add_integers(name, std::span<const std::int64_t>(values.begin(), values.size()));
  }
  /// Likewise with one number without dimensions.
  void add_integer(const char* name, std::int64_t value) {
    add_input(step_.add_parameter(name, host_tensor(std::vector{value}, {})));
  }
  /// Adds attributes.
  ///@{
  void set(const char* name, std::int64_t value) { attributes_.add_integer(name, value); }
  void set(const char* name, const extents& values) {
    attributes_.add_integers(name, {values.begin(), values.size()});
  }
  void set_text(const char* name, std::string_view value) { attributes_.add_text(name, value); }
  void set_float(const char* name, double value) {
    attributes_.add_real(name, static_cast<double>(static_cast<float>(value)));
  }
  ///@}

 private:
  [[nodiscard]] static bool is_in_range_of_float(double number);
  void add_input(const std::string& name) { message_.add_input(name); }

  const step_description& step_;
  onnx::NodeProto& message_;
  attribute_writer attributes_;
};

/// How a step of an operation becomes a node of ONNX. Returns false, and writes nothing, if it does
/// not.
struct standard_form {
  std::string_view operation{};
  bool (*write)(standard_node&) = nullptr;
};

/// The forms of a family.
///@{
[[nodiscard]] std::span<const standard_form> standard_layer_forms();
[[nodiscard]] std::span<const standard_form> standard_movement_forms();
[[nodiscard]] std::span<const standard_form> standard_reduction_forms();
///@}
/// Likewise of the functions of `unary` and `binary`.
[[nodiscard]] bool write_standard_function(standard_node& node);

}  // namespace sluice::models
