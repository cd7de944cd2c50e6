// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/protocol/datatype.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace sluice::service {

/// Limits of a request, whatever its protocol.
///@{
inline constexpr std::size_t max_tensors = 256;  ///< inputs, and outputs
inline constexpr std::size_t max_dimensions = 8;
/// Of all inputs together.
inline constexpr std::uint64_t max_bytes = std::numeric_limits<std::int64_t>::max();
///@}

/// The size of a tensor in bytes, or nothing if it exceeds `max_bytes` or an extent is negative.
/// Extents of zero do not hide other extents that are too large, because strides are products of
/// those.
[[nodiscard]] std::optional<std::uint64_t> tensor_bytes(std::span<const std::int64_t> shape,
                                                        datatype type) noexcept;

}  // namespace sluice::service
