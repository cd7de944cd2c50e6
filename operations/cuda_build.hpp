// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace sluice::operations {

/// Whether the build has the CUDA device.
#ifdef SLUICE_HAS_CUDA
inline constexpr bool has_cuda = true;
#else
inline constexpr bool has_cuda = false;
#endif

/// `Function`, or nullptr in a build without CUDA, which does not link it.
template <auto* Function>
[[nodiscard]] constexpr decltype(Function) with_cuda() noexcept {
  if constexpr (has_cuda) {
    return Function;
  } else {
    return nullptr;
  }
}

}  // namespace sluice::operations
