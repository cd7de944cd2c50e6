// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/gpu_ref.hpp>

#include <cstddef>

namespace sluice::detail {

/// A part of a block.
struct byte_range {
  const block_ref& block;
  const void* address;
  std::size_t bytes;
};

/// Whether two ranges share any bytes. The ranges may lie in one block or in two imports of the
/// same memory. False for blocks of different runtimes and for freed blocks.
[[nodiscard]] bool share_bytes(const byte_range& a, const byte_range& b) noexcept;

}  // namespace sluice::detail
