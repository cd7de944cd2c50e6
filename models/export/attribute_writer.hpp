// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/messages.hpp"

#include <sluice/operations/scalar.hpp>
#include <sluice/runtime/extents.hpp>

#include <cstdint>
#include <span>
#include <string_view>

namespace sluice::models {

/// Adds attributes to a node. docs/concepts/models.md has the form of each type.
class attribute_writer {
 public:
  explicit attribute_writer(onnx::NodeProto& message) noexcept : message_(message) {}

  void add_integer(std::string_view name, std::int64_t value);
  void add_integers(std::string_view name, std::span<const std::int64_t> values);
  void add_text(std::string_view name, std::string_view value);
  /// A real number: a FLOAT if that is exact, and otherwise a tensor.
  void add_real(std::string_view name, double value);
  void add_reals(std::string_view name, std::span<const double> values);
  /// @throws error `unsupported` if it is a scalar of a program
  void add_scalar(std::string_view name, const scalar& value);

 private:
  onnx::AttributeProto& add(std::string_view name, onnx::AttributeProto::AttributeType type);
  /// A tensor of `values`, without dimensions if there is one number.
  template <class T>
  void add_tensor(std::string_view name, onnx::TensorProto::DataType type,
                  std::span<const T> values, bool is_number);

  onnx::NodeProto& message_;
};

/// Whether an attribute of the type FLOAT has exactly this number. NaN has no exact form there.
[[nodiscard]] bool is_exact_float(double value) noexcept;

}  // namespace sluice::models
