// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/window_loops.hpp"

#include "operations/vector_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "operations/dnn/window_loops.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace sluice::operations::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using host::window_row;

constexpr auto window_lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
static_assert(window_lanes <= host::least_windows);

/// The vectors of windows whose sums registers hold, beside those of operands.
constexpr int most_vectors(int filters) noexcept {
  return filters == 4 ? 3 : filters == 2 ? 5 : 6;
}

/// Computes the windows from number `first` on: `Vectors` vectors. The last one begins at window
/// `last`, so that it ends with the row.
template <int Filters, int Vectors>
HWY_INLINE void sum_block(const window_row& row, std::int64_t first, std::int64_t last) {
  const hn::ScalableTag<float> d;
  using vector = hn::Vec<decltype(d)>;
  vector sums[Filters][Vectors];
  for (int k = 0; k < Filters; ++k) {
    const auto bias = hn::Set(d, row.bias != nullptr ? row.bias[k] : 0.0F);
    for (int v = 0; v < Vectors; ++v) sums[k][v] = bias;
  }
  for (std::int64_t c = 0; c < row.channels; ++c) {
    const auto position = row.first + c * row.x_channel;
    const float* w = row.w + c * row.w_channel;
    for (std::int64_t t = 0; t < row.tap_count; ++t, w += Filters) {
      const float* const x = row.x + (position + row.taps[t]);
      vector windows[Vectors];
      for (int v = 0; v + 1 < Vectors; ++v) windows[v] = hn::LoadU(d, x + first + v * window_lanes);
      windows[Vectors - 1] = hn::LoadU(d, x + last);
      for (int k = 0; k < Filters; ++k) {
        const auto factor = hn::Set(d, w[k]);
        for (int v = 0; v < Vectors; ++v) sums[k][v] = hn::MulAdd(factor, windows[v], sums[k][v]);
      }
    }
  }
  for (int k = 0; k < Filters; ++k) {
    float* const y = row.y + k * row.y_channel;
    for (int v = 0; v + 1 < Vectors; ++v) {
      hn::StoreU(sums[k][v], d, y + first + v * window_lanes);
    }
    hn::StoreU(sums[k][Vectors - 1], d, y + last);
  }
}

/// Computes `vectors` vectors, at most `Vectors`.
template <int Filters, int Vectors>
HWY_INLINE void sum_vectors(const window_row& row, std::int64_t first, std::int64_t vectors) {
  if constexpr (Vectors > 1) {
    if (vectors < Vectors) return sum_vectors<Filters, Vectors - 1>(row, first, vectors);
  }
  const auto last = std::min(first + (Vectors - 1) * window_lanes, row.windows - window_lanes);
  sum_block<Filters, Vectors>(row, first, last);
}

/// Divides the row into blocks of about the same number of vectors.
template <int Filters>
void sum_row(const window_row& row) {
  constexpr int most = most_vectors(Filters);
  const auto vectors = (row.windows + window_lanes - 1) / window_lanes;
  const auto blocks = (vectors + most - 1) / most;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const auto begin = vectors * block / blocks;
    const auto end = vectors * (block + 1) / blocks;
    const auto first = std::min(begin * window_lanes, row.windows - window_lanes);
    sum_vectors<Filters, most>(row, first, end - begin);
  }
}

void sum_windows_f32(const window_row& row) {
  switch (row.filters) {
    case 4:
      return sum_row<4>(row);
    case 2:
      return sum_row<2>(row);
    default:
      return sum_row<1>(row);
  }
}

}  // namespace sluice::operations::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::operations {
HWY_EXPORT(sum_windows_f32);
}  // namespace sluice::operations

namespace sluice::host {

void sum_windows_f32(const window_row& row) {
  using namespace operations;
  HWY_DYNAMIC_DISPATCH(sum_windows_f32)(row);
}

}  // namespace sluice::host
#endif
