// SPDX-License-Identifier: Apache-2.0
#include "models/export/attribute_reader.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <complex>
#include <cstring>

namespace sluice::models {

namespace {

error wrong_type(std::string_view name) {
  return invalid_argument(name, "is an attribute of another type");
}

/// Copies the elements of a tensor whose bytes are in the attribute. `dimensions` is 0 for one
/// number.
template <class T>
void copy_elements(std::string_view name, const onnx::TensorProto& tensor, int dimensions,
                   std::span<T> elements) {
  const bool has_shape =
      tensor.dims_size() == dimensions &&
      (dimensions == 0 || tensor.dims(0) == static_cast<std::int64_t>(elements.size()));
  if (!has_shape || tensor.raw_data().size() != elements.size_bytes()) {
    throw invalid_argument(name, "has not " + std::to_string(elements.size()) +
                                     (elements.size() == 1 ? " number" : " numbers"));
  }
  std::memcpy(elements.data(), tensor.raw_data().data(), elements.size_bytes());
}
template <class T>
T only_element(std::string_view name, const onnx::TensorProto& tensor) {
  T number{};
  copy_elements<T>(name, tensor, 0, {&number, 1});
  return number;
}

}  // namespace

const onnx::AttributeProto* attribute_reader::find(std::string_view name) {
  known_.push_back(name);
  const auto found = attributes_.find(name);
  return found != attributes_.end() ? found->second : nullptr;
}
const onnx::AttributeProto* attribute_reader::find(std::string_view name,
                                                   onnx::AttributeProto::AttributeType type) {
  const auto* const found = find(name);
  if (found != nullptr && found->type() != type) throw wrong_type(name);
  return found;
}

std::optional<std::int64_t> attribute_reader::integer(std::string_view name) {
  const auto* const found = find(name, onnx::AttributeProto::INT);
  return found != nullptr ? std::optional(found->i()) : std::nullopt;
}
std::optional<bool> attribute_reader::boolean(std::string_view name) {
  const auto number = integer(name);
  if (!number) return std::nullopt;
  if (*number != 0 && *number != 1) {
    throw invalid_argument(name, "is " + std::to_string(*number) + " instead of 0 or 1");
  }
  return *number == 1;
}
std::optional<extents> attribute_reader::integers(std::string_view name) {
  const auto* const found = find(name, onnx::AttributeProto::INTS);
  if (found == nullptr) return std::nullopt;
  const auto count = static_cast<std::size_t>(found->ints_size());
  if (count > extents::max_rank) {
    throw invalid_argument(name, "has " + std::to_string(count) + " numbers, but at most " +
                                     std::to_string(extents::max_rank) + " are possible");
  }
  return extents(std::span<const std::int64_t>(found->ints().data(), count));
}
std::optional<std::string_view> attribute_reader::text(std::string_view name) {
  const auto* const found = find(name, onnx::AttributeProto::STRING);
  return found != nullptr ? std::optional<std::string_view>(found->s()) : std::nullopt;
}
std::optional<double> attribute_reader::real(std::string_view name) {
  const auto* const found = find(name);
  if (found == nullptr) return std::nullopt;
  if (found->type() == onnx::AttributeProto::FLOAT) return static_cast<double>(found->f());
  if (found->type() == onnx::AttributeProto::TENSOR &&
      found->t().data_type() == onnx::TensorProto::DOUBLE) {
    return only_element<double>(name, found->t());
  }
  throw wrong_type(name);
}
bool attribute_reader::reals(std::string_view name, std::span<double> values) {
  const auto* const found = find(name, onnx::AttributeProto::TENSOR);
  if (found == nullptr) return false;
  if (found->t().data_type() != onnx::TensorProto::DOUBLE) throw wrong_type(name);
  copy_elements<double>(name, found->t(), 1, values);
  return true;
}
std::optional<scalar> attribute_reader::number(std::string_view name) {
  const auto* const found = find(name);
  if (found == nullptr) return std::nullopt;
  if (found->type() == onnx::AttributeProto::INT) return scalar(found->i());
  if (found->type() == onnx::AttributeProto::TENSOR) {
    if (found->t().data_type() == onnx::TensorProto::UINT64)
      return scalar(only_element<std::uint64_t>(name, found->t()));
    if (found->t().data_type() == onnx::TensorProto::COMPLEX128)
      return scalar(only_element<std::complex<double>>(name, found->t()));
  }
  return scalar(*real(name));
}
std::optional<std::size_t> attribute_reader::enumerator(std::string_view name,
                                                        std::span<const std::string_view> names) {
  const auto choice = text(name);
  if (!choice) return std::nullopt;
  const auto found = std::find(names.begin(), names.end(), *choice);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  std::string all;
  for (const auto& possible : names) all += (all.empty() ? "" : ", ") + std::string(possible);
  constexpr std::size_t longest = 100;
  throw invalid_argument(
      name, "is '" + std::string(choice->substr(0, longest)) + "', which is none of " + all);
}

void attribute_reader::require_no_other(std::string_view operation) const {
  for (const auto& [name, attribute] : attributes_) {
    const bool belongs_to_tools = name.starts_with("__");
    if (belongs_to_tools || std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    constexpr std::size_t longest = 200;
    throw invalid_argument(name.substr(0, longest), "is no attribute of " + std::string(operation));
  }
}

}  // namespace sluice::models
