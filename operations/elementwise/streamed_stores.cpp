// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/streamed_stores.hpp"

#include "operations/vector_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "operations/elementwise/streamed_stores.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace sluice::operations::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void stream_bytes(const std::uint8_t* x, std::size_t count, std::uint8_t* y) {
  const hn::ScalableTag<std::uint8_t> d;
  constexpr std::size_t lanes = hn::MaxLanes(hn::ScalableTag<std::uint8_t>());
  const auto head = std::min(count, (lanes - reinterpret_cast<std::uintptr_t>(y) % lanes) % lanes);
  std::memcpy(y, x, head);
  auto i = head;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto a = hn::LoadU(d, x + i);
    const auto b = hn::LoadU(d, x + i + lanes);
    const auto c = hn::LoadU(d, x + i + 2 * lanes);
    const auto e = hn::LoadU(d, x + i + 3 * lanes);
    hn::Stream(a, d, y + i);
    hn::Stream(b, d, y + i + lanes);
    hn::Stream(c, d, y + i + 2 * lanes);
    hn::Stream(e, d, y + i + 3 * lanes);
  }
  std::memcpy(y + i, x + i, count - i);
}

}  // namespace sluice::operations::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::operations {
HWY_EXPORT(stream_bytes);
}  // namespace sluice::operations

namespace sluice::host {

using namespace operations;

void stream_bytes(const void* x, std::size_t count, void* y) {
  HWY_DYNAMIC_DISPATCH(stream_bytes)
  (static_cast<const std::uint8_t*>(x), count, static_cast<std::uint8_t*>(y));
}

}  // namespace sluice::host
#endif
