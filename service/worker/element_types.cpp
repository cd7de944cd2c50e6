// SPDX-License-Identifier: Apache-2.0
#include "service/worker/element_types.hpp"

#include <array>
#include <utility>

namespace sluice::service {
namespace {

constexpr std::array<std::pair<datatype, element_type>, 13> types{{
    {datatype::boolean, element_type::boolean},
    {datatype::uint8, element_type::u8},
    {datatype::uint16, element_type::u16},
    {datatype::uint32, element_type::u32},
    {datatype::uint64, element_type::u64},
    {datatype::int8, element_type::i8},
    {datatype::int16, element_type::i16},
    {datatype::int32, element_type::i32},
    {datatype::int64, element_type::i64},
    {datatype::fp16, element_type::f16},
    {datatype::fp32, element_type::f32},
    {datatype::fp64, element_type::f64},
    {datatype::bf16, element_type::bf16},
}};

}  // namespace

element_type element_type_of(datatype type) noexcept {
  return types[static_cast<std::size_t>(type)].second;
}

std::optional<datatype> datatype_of(element_type type) noexcept {
  for (const auto& [of_protocol, element] : types) {
    if (element == type) return of_protocol;
  }
  return std::nullopt;
}

}  // namespace sluice::service
