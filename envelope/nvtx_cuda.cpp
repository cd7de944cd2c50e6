// SPDX-License-Identifier: Apache-2.0
#include "envelope/nvtx_range.hpp"

#include <nvtx3/nvToolsExt.h>

namespace sluice::detail {

bool nvtx_available() noexcept {
  return true;
}
void nvtx_push(const char* label) noexcept {
  nvtxRangePushA(label);
}
void nvtx_pop() noexcept {
  nvtxRangePop();
}
std::uint64_t nvtx_begin(const char* label) noexcept {
  return nvtxRangeStartA(label);
}
void nvtx_end(std::uint64_t range) noexcept {
  nvtxRangeEnd(range);
}

}  // namespace sluice::detail
