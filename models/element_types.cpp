// SPDX-License-Identifier: Apache-2.0
#include "models/element_types.hpp"

#include <sluice/runtime/error.hpp>

#include <array>
#include <cstddef>
#include <limits>
#include <string_view>

namespace sluice::models {

namespace {

struct type_entry {
  std::string_view name;
  std::optional<element_type> type;
};

/// By number. onnx.in.proto, message TensorProto.
constexpr std::array<type_entry, 27> types{{
    {"UNDEFINED", {}},
    {"FLOAT", element_type::f32},
    {"UINT8", element_type::u8},
    {"INT8", element_type::i8},
    {"UINT16", element_type::u16},
    {"INT16", element_type::i16},
    {"INT32", element_type::i32},
    {"INT64", element_type::i64},
    {"STRING", {}},
    {"BOOL", element_type::boolean},
    {"FLOAT16", element_type::f16},
    {"DOUBLE", element_type::f64},
    {"UINT32", element_type::u32},
    {"UINT64", element_type::u64},
    {"COMPLEX64", element_type::c64},
    {"COMPLEX128", element_type::c128},
    {"BFLOAT16", element_type::bf16},
    {"FLOAT8E4M3FN", element_type::e4m3},
    {"FLOAT8E4M3FNUZ", {}},
    {"FLOAT8E5M2", element_type::e5m2},
    {"FLOAT8E5M2FNUZ", {}},
    {"UINT4", {}},
    {"INT4", {}},
    {"FLOAT4E2M1", {}},
    {"FLOAT8E8M0", {}},
    {"UINT2", {}},
    {"INT2", {}},
}};

}  // namespace

std::optional<element_type> find_element_type(std::int64_t number) noexcept {
  if (number < 0 || static_cast<std::size_t>(number) >= types.size()) return std::nullopt;
  return types[static_cast<std::size_t>(number)].type;
}

element_type require_element_type(std::int64_t number) {
  if (const auto type = find_element_type(number)) return *type;
  const bool named = number > 0 && static_cast<std::size_t>(number) < types.size();
  throw error(errc::unsupported,
              "the element type " +
                  (named ? std::string(types[static_cast<std::size_t>(number)].name)
                         : std::to_string(number)) +
                  " of ONNX");
}

std::int32_t onnx_number_of(element_type type) noexcept {
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i].type == type) return static_cast<std::int32_t>(i);
  }
  return 0;
}

bool is_real(element_type type) noexcept {
  return type == element_type::f16 || type == element_type::bf16 || type == element_type::f32 ||
         type == element_type::f64;
}

number_range range_of(element_type type) noexcept {
  switch (type) {
    case element_type::f16:
      return {0x1p-14, 65504};
    case element_type::bf16:
      return {0x1p-126, 0x1.FEp127};
    case element_type::f32:
      return {std::numeric_limits<float>::min(), std::numeric_limits<float>::max()};
    default:
      return {std::numeric_limits<double>::min(), std::numeric_limits<double>::max()};
  }
}

}  // namespace sluice::models
