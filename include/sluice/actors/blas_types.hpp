// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace sluice {

/// How a matrix lies in memory. The distance between neighbouring rows (row-major) or columns
/// (column-major) is its leading dimension, in elements.
enum class layout : std::uint8_t { row_major, column_major };

/// Whether an operation takes a matrix as it is stored or its transpose.
enum class transpose : std::uint8_t { no, yes };

}  // namespace sluice
