// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace sluice {

/// Which channel of a deep image has which element of a block; see `depth_to_space`. The names are
/// those of ONNX.
enum class depth_order : std::uint8_t {
  dcr,  ///< depth, column, row: all channels of one position of the block, then of the next one
  crd,  ///< column, row, depth: all positions of one channel, then of the next one
};

}  // namespace sluice
