// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::service {

/// The element types of the Open Inference Protocol that tensors of the service may have.
enum class datatype : std::uint8_t {
  boolean,
  uint8,
  uint16,
  uint32,
  uint64,
  int8,
  int16,
  int32,
  int64,
  fp16,
  fp32,
  fp64,
  bf16,
};

/// The name in the protocol: "FP32".
[[nodiscard]] std::string_view to_string(datatype type) noexcept;
/// The type with this name in the protocol, if there is one.
[[nodiscard]] std::optional<datatype> datatype_from(std::string_view name) noexcept;
/// The size of one element in bytes.
[[nodiscard]] std::size_t size_of(datatype type) noexcept;

}  // namespace sluice::service
