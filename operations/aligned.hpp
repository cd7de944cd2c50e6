// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/tensor_spec.hpp>

#include <cstddef>

namespace sluice::operations {

/// `bytes`, rounded up to a multiple of the alignment that every operation takes.
[[nodiscard]] constexpr std::size_t aligned(std::size_t bytes) noexcept {
  constexpr std::size_t alignment = tensor_spec::max_alignment;
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace sluice::operations
