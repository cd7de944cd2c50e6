// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/datatype.hpp"

#include <array>

namespace sluice::service {
namespace {

struct descriptor {
  datatype type;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<descriptor, 13> descriptors{{
    {datatype::boolean, "BOOL", 1},
    {datatype::uint8, "UINT8", 1},
    {datatype::uint16, "UINT16", 2},
    {datatype::uint32, "UINT32", 4},
    {datatype::uint64, "UINT64", 8},
    {datatype::int8, "INT8", 1},
    {datatype::int16, "INT16", 2},
    {datatype::int32, "INT32", 4},
    {datatype::int64, "INT64", 8},
    {datatype::fp16, "FP16", 2},
    {datatype::fp32, "FP32", 4},
    {datatype::fp64, "FP64", 8},
    {datatype::bf16, "BF16", 2},
}};

[[nodiscard]] const descriptor& descriptor_of(datatype type) noexcept {
  return descriptors[static_cast<std::size_t>(type)];
}

}  // namespace

std::string_view to_string(datatype type) noexcept {
  return descriptor_of(type).name;
}

std::optional<datatype> datatype_from(std::string_view name) noexcept {
  for (const auto& d : descriptors) {
    if (d.name == name) return d.type;
  }
  return std::nullopt;
}

std::size_t size_of(datatype type) noexcept {
  return descriptor_of(type).bytes;
}

}  // namespace sluice::service
