// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace sluice::operations {

/// `Function`, or nullptr in a build without CUDA, which does not link it.
template <auto* Function>
[[nodiscard]] constexpr decltype(Function) with_cuda() noexcept {
#ifdef SLUICE_HAS_CUDA
  return Function;
#else
  return nullptr;
#endif
}

}  // namespace sluice::operations
