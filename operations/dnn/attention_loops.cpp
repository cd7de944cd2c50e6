// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/attention_loops.hpp"

#include "operations/vector_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "operations/dnn/attention_loops.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "operations/elementwise/exponential-inl.hpp"
#include "operations/elementwise/f32_arithmetic-inl.hpp"

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace sluice::operations::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using host::score_block;

static_assert(host::score_padding % float_lanes == 0);

/// The scores of a vector before `count`, and -infinity instead of others.
HWY_INLINE float_vector load_scores(const float* x, std::int64_t count) {
  const floats d;
  const auto visible = hn::FirstN(d, static_cast<std::size_t>(count));
  return hn::IfThenElse(visible, hn::LoadU(d, x), hn::Set(d, -HUGE_VALF));
}

/// The largest of the numbers among `count` scores.
HWY_INLINE float largest_score(const float* x, std::int64_t count) {
  const floats d;
  const auto larger = [](auto a, auto b) {
    return hn::Max(a, b);  // b if a is NaN
  };
  auto all = repeated(-HUGE_VALF);
  std::int64_t i = 0;
  for (; i + tile_size <= count; i += tile_size) all = map_tiles(larger, load_tile(x + i), all);
  auto largest = larger(larger(all.v0, all.v1), larger(all.v2, all.v3));
  for (; i < count; i += float_lanes) largest = larger(load_scores(x + i, count - i), largest);
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  // `MaxOfLanes` of EMU128 takes no number for smaller than the least finite one.
  std::array<float, static_cast<std::size_t>(float_lanes)> lanes;
  hn::StoreU(largest, d, lanes.data());
  return *std::max_element(lanes.begin(), lanes.end());
#else
  return hn::GetLane(hn::MaxOfLanes(d, largest));
#endif
}

/// Replaces `count` scores by their weights, and the others of the last vector by 0.
/// @return the sum of these
HWY_INLINE double weigh(float* x, std::int64_t count, float shift) {
  const floats d;
  const auto subtracted = hn::Set(d, shift);
  const auto power = [&](auto v) {
    return exponential_below_one(d, hn::Sub(v, subtracted));
  };
  auto sums = repeated(0);
  std::int64_t i = 0;
  for (; i + tile_size <= count; i += tile_size) {
    const auto weights = map_tile(power, load_tile(x + i));
    store_tile(weights, x + i);
    sums = map_tiles([](auto a, auto b) { return hn::Add(a, b); }, sums, weights);
  }
  for (; i < count; i += float_lanes) {
    const auto weights = power(load_scores(x + i, count - i));
    hn::StoreU(weights, d, x + i);
    sums.v0 = hn::Add(sums.v0, weights);
  }
  const auto sum = hn::Add(hn::Add(sums.v0, sums.v1), hn::Add(sums.v2, sums.v3));
  return static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
}

void weigh_scores_f32(const score_block& scores, float* maxima, float* changes, double* sums) {
  float* row = scores.first;
  for (std::int64_t r = 0; r < scores.rows; ++r, row += scores.row) {
    const auto visible =
        std::clamp<std::int64_t>(scores.visible + r * scores.growth, 0, scores.keys);
    const auto largest = std::max(largest_score(row, visible), maxima[r]);
    const float shift = largest == -HUGE_VALF ? 0 : largest;
    sums[r] = weigh(row, visible, shift);
    const auto hidden = (visible + float_lanes - 1) / float_lanes * float_lanes;
    if (hidden < scores.keys) std::fill(row + hidden, row + scores.keys, 0.0F);
    changes[r] = maxima[r] - shift;
    maxima[r] = largest;
  }
}

}  // namespace sluice::operations::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::operations {
HWY_EXPORT(weigh_scores_f32);
}  // namespace sluice::operations

namespace sluice::host {

void weigh_scores_f32(const score_block& scores, float* maxima, float* changes, double* sums) {
  using namespace operations;
  HWY_DYNAMIC_DISPATCH(weigh_scores_f32)(scores, maxima, changes, sums);
}

}  // namespace sluice::host
#endif
