// SPDX-License-Identifier: Apache-2.0
// Replaces NVTX in builds without the CUDA toolkit.
#include "envelope/nvtx_range.hpp"

namespace sluice::detail {

bool nvtx_available() noexcept {
  return false;
}
void nvtx_push(const char*) noexcept {}
void nvtx_pop() noexcept {}
std::uint64_t nvtx_begin(const char*) noexcept {
  return 0;
}
void nvtx_end(std::uint64_t) noexcept {}

}  // namespace sluice::detail
