// SPDX-License-Identifier: Apache-2.0
#include "models/tensor_reader.hpp"

#include "models/element_types.hpp"
#include "models/external_data.hpp"

#include <sluice/operations/tensor_spec.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/extents.hpp>

#include <bit>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace sluice::models {

namespace {

static_assert(std::endian::native == std::endian::little, "raw data is in little-endian order");

void require_count(const onnx::TensorProto& tensor, std::size_t found, std::size_t expected) {
  if (found == expected) return;
  throw error(errc::invalid_argument, "tensor '" + tensor.name() + "': has " +
                                          std::to_string(found) + " numbers for " +
                                          std::to_string(expected));
}

/// Converts each number of a field to a `T`.
template <class T, class Field>
void convert(const onnx::TensorProto& tensor, const Field& field, host_tensor& result) {
  require_count(tensor, static_cast<std::size_t>(field.size()), result.size());
  auto elements = result.values<T>();
  for (int i = 0; i < field.size(); ++i) {
    if constexpr (requires(T element) { element.bits; }) {
      using bits = decltype(T::bits);
      elements[static_cast<std::size_t>(i)].bits = static_cast<bits>(field[i]);
    } else {
      elements[static_cast<std::size_t>(i)] = static_cast<T>(field[i]);
    }
  }
}
/// Likewise of complex numbers, of which a field has the parts.
template <class T, class Field>
void convert_complex(const onnx::TensorProto& tensor, const Field& field, host_tensor& result) {
  require_count(tensor, static_cast<std::size_t>(field.size()), 2 * result.size());
  auto elements = result.values<std::complex<T>>();
  for (int i = 0; i < field.size(); i += 2) {
    elements[static_cast<std::size_t>(i / 2)] = {field[i], field[i + 1]};
  }
}

/// The number of numbers that the fields of a tensor have.
std::size_t field_size(const onnx::TensorProto& t) {
  return static_cast<std::size_t>(t.float_data_size()) +
         static_cast<std::size_t>(t.int32_data_size()) +
         static_cast<std::size_t>(t.int64_data_size()) +
         static_cast<std::size_t>(t.double_data_size()) +
         static_cast<std::size_t>(t.uint64_data_size());
}

void read_fields(const onnx::TensorProto& t, host_tensor& result) {
  switch (result.type()) {
    case element_type::boolean:
      return convert<bool>(t, t.int32_data(), result);
    case element_type::u8:
      return convert<std::uint8_t>(t, t.int32_data(), result);
    case element_type::i8:
      return convert<std::int8_t>(t, t.int32_data(), result);
    case element_type::u16:
      return convert<std::uint16_t>(t, t.int32_data(), result);
    case element_type::i16:
      return convert<std::int16_t>(t, t.int32_data(), result);
    case element_type::i32:
      return convert<std::int32_t>(t, t.int32_data(), result);
    case element_type::u32:
      return convert<std::uint32_t>(t, t.uint64_data(), result);
    case element_type::i64:
      return convert<std::int64_t>(t, t.int64_data(), result);
    case element_type::u64:
      return convert<std::uint64_t>(t, t.uint64_data(), result);
    case element_type::e4m3:
      return convert<e4m3>(t, t.int32_data(), result);
    case element_type::e5m2:
      return convert<e5m2>(t, t.int32_data(), result);
    case element_type::f16:
      return convert<f16>(t, t.int32_data(), result);
    case element_type::bf16:
      return convert<bf16>(t, t.int32_data(), result);
    case element_type::f32:
      return convert<float>(t, t.float_data(), result);
    case element_type::f64:
      return convert<double>(t, t.double_data(), result);
    case element_type::c64:
      return convert_complex<float>(t, t.float_data(), result);
    case element_type::c128:
      return convert_complex<double>(t, t.double_data(), result);
  }
}

/// Memory for the elements.
host_tensor allocate(const onnx::TensorProto& tensor, element_type type, const extents& shape) {
  try {
    return {type, shape};
  } catch (...) {
    const auto e = current_error();
    throw error(e.code(), "tensor '" + tensor.name() + "': " + e.what(), e.status(), e.where());
  }
}

}  // namespace

host_tensor read_tensor(const onnx::TensorProto& tensor,
                        const std::optional<std::filesystem::path>& folder) {
  const auto type = require_element_type(tensor.data_type());
  const bool external =
      tensor.has_data_location() && tensor.data_location() == onnx::TensorProto::EXTERNAL;
  if (external && !folder) {
    throw error(errc::unsupported,
                "tensor '" + tensor.name() + "': its elements are in another file");
  }
  const extents shape(std::span<const std::int64_t>(tensor.dims().data(),
                                                    static_cast<std::size_t>(tensor.dims_size())));
  const auto spec = tensor_spec::row_major(type, shape);
  // Before any memory is allocated.
  const bool raw = tensor.has_raw_data();
  if (external) {
    require_external_data(tensor, *folder, spec.bytes());
  } else if (raw) {
    const auto bytes = tensor.raw_data().size();
    require_count(tensor, bytes / size_of(type), spec.size());
    if (bytes != spec.bytes()) {
      throw error(errc::invalid_argument, "tensor '" + tensor.name() + "': a part of a number");
    }
  } else {
    const bool complex = type == element_type::c64 || type == element_type::c128;
    require_count(tensor, field_size(tensor), (complex ? 2 : 1) * spec.size());
  }
  auto result = allocate(tensor, type, shape);
  if (!raw && !external) {
    read_fields(tensor, result);
    return result;
  }
  auto* const bytes = static_cast<std::byte*>(result.data().get());
  if (external) {
    read_external_data(tensor, *folder, {bytes, spec.bytes()});
  } else if (spec.bytes() != 0) {
    std::memcpy(bytes, tensor.raw_data().data(), spec.bytes());
  }
  if (type == element_type::boolean) {
    for (std::size_t i = 0; i < result.size(); ++i) {
      bytes[i] = std::byte{bytes[i] != std::byte{0} ? std::uint8_t{1} : std::uint8_t{0}};
    }
  }
  return result;
}

}  // namespace sluice::models
