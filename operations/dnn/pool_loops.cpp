// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/pool_loops.hpp"

#include "operations/vector_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "operations/dnn/pool_loops.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "operations/elementwise/f32_arithmetic-inl.hpp"

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::operations::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// A tap of neighbouring windows, one in each lane; with a step of 2, the larger one of it and the
/// next one.
template <std::int64_t Step, class D>
HWY_INLINE hn::Vec<D> load_taps(D d, const float* x) {
  if constexpr (Step == 1) {
    return hn::LoadU(d, x);
  } else {
    hn::Vec<D> even;
    hn::Vec<D> odd;
    hn::LoadInterleaved2(d, x, even, odd);
    return extremum<true>(d, even, odd);
  }
}

/// The largest elements of neighbouring windows, one in each lane.
template <std::int64_t Step, class D>
HWY_INLINE hn::Vec<D> largest_of_windows(D d, const float* x, const host::f32_rows& rows,
                                         std::int64_t window) {
  auto largest = load_taps<Step>(d, x);
  // A NaN becomes the one of a comparison.
  if (Step == 1 && window == 1 && rows.rows == 1) largest = extremum<true>(d, largest, largest);
  for (std::int64_t tap = Step; tap < window; tap += Step) {
    largest = extremum<true>(d, load_taps<Step>(d, x + tap), largest);
  }
  for (std::int64_t row = 1; row < rows.rows; ++row) {
    x += rows.distance;
    for (std::int64_t tap = 0; tap < window; tap += Step) {
      largest = extremum<true>(d, load_taps<Step>(d, x + tap), largest);
    }
  }
  return largest;
}

template <std::int64_t Step>
void max_windows(const host::f32_rows& rows, const host::window_line& line, float* y) {
  const hn::ScalableTag<float> d;
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  std::int64_t i = 0;
  for (; i + lanes <= line.count; i += lanes) {
    hn::StoreU(largest_of_windows<Step>(d, rows.x + i * Step, rows, line.window), d, y + i);
  }
  if (i == line.count) return;
  if (line.count >= lanes) {
    // The last vector shares windows with the one before it.
    i = line.count - lanes;
    hn::StoreU(largest_of_windows<Step>(d, rows.x + i * Step, rows, line.window), d, y + i);
    return;
  }
  const hn::CappedTag<float, 1> one;
  for (; i < line.count; ++i) {
    hn::StoreU(largest_of_windows<Step>(one, rows.x + i * Step, rows, line.window), one, y + i);
  }
}

void max_windows_f32(const host::f32_rows& rows, const host::window_line& line, float* y) {
  if (line.step == 1) return max_windows<1>(rows, line, y);
  max_windows<2>(rows, line, y);
}

}  // namespace sluice::operations::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::operations {
HWY_EXPORT(max_windows_f32);
}  // namespace sluice::operations

namespace sluice::host {

void max_windows_f32(const f32_rows& rows, const window_line& line, float* y) {
  using namespace operations;
  HWY_DYNAMIC_DISPATCH(max_windows_f32)(rows, line, y);
}

}  // namespace sluice::host
#endif
