// SPDX-License-Identifier: Apache-2.0
#include "models/export/attribute_writer.hpp"

#include <sluice/runtime/error.hpp>

#include <cmath>
#include <complex>
#include <limits>
#include <string>

namespace sluice::models {

bool is_exact_float(double value) noexcept {
  if (std::isinf(value)) return true;
  if (!(std::abs(value) <= std::numeric_limits<float>::max())) return false;
  return static_cast<double>(static_cast<float>(value)) == value;
}

onnx::AttributeProto& attribute_writer::add(std::string_view name,
                                            onnx::AttributeProto::AttributeType type) {
  auto& attribute = *message_.add_attribute();
  attribute.set_name(std::string(name));
  attribute.set_type(type);
  return attribute;
}
void attribute_writer::add_integer(std::string_view name, std::int64_t value) {
  add(name, onnx::AttributeProto::INT).set_i(value);
}
void attribute_writer::add_integers(std::string_view name, std::span<const std::int64_t> values) {
  auto& attribute = add(name, onnx::AttributeProto::INTS);
  for (const auto value : values) attribute.add_ints(value);
}
void attribute_writer::add_text(std::string_view name, std::string_view value) {
  add(name, onnx::AttributeProto::STRING).set_s(std::string(value));
}
template <class T>
void attribute_writer::add_tensor(std::string_view name, onnx::TensorProto::DataType type,
                                  std::span<const T> values, bool is_number) {
  auto& tensor = *add(name, onnx::AttributeProto::TENSOR).mutable_t();
  tensor.set_data_type(type);
  if (!is_number) tensor.add_dims(static_cast<std::int64_t>(values.size()));
  tensor.set_raw_data(values.data(), values.size_bytes());
}
void attribute_writer::add_real(std::string_view name, double value) {
  if (is_exact_float(value)) {
    add(name, onnx::AttributeProto::FLOAT).set_f(static_cast<float>(value));
  } else {
    add_tensor(name, onnx::TensorProto::DOUBLE, std::span<const double>(&value, 1), true);
  }
}
void attribute_writer::add_reals(std::string_view name, std::span<const double> values) {
  add_tensor(name, onnx::TensorProto::DOUBLE, values, false);
}
void attribute_writer::add_scalar(std::string_view name, const scalar& value) {
  if (value.is_of_program()) {
    throw error(errc::unsupported,
                std::string(name) + ": is a number that each run gives, which no file states");
  }
  if (const auto number = value.non_finite()) return add_real(name, *number);
  // Scalars are equal only if they are of the same kind.
  const auto number = value.to<std::complex<double>>(name);
  if (value == scalar(number.real())) return add_real(name, number.real());
  if (value == scalar(number)) {
    return add_tensor(name, onnx::TensorProto::COMPLEX128,
                      std::span<const std::complex<double>>(&number, 1), true);
  }
  if (number.real() >= 0) {
    const auto integer = value.to<std::uint64_t>(name);
    if (value == scalar(integer)) {
      return add_tensor(name, onnx::TensorProto::UINT64,
                        std::span<const std::uint64_t>(&integer, 1), true);
    }
  }
  add_integer(name, value.to<std::int64_t>(name));
}

}  // namespace sluice::models
