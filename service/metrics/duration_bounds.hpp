// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <prometheus/histogram.h>

namespace sluice::service {

/// The bounds of histograms of times, in seconds.
[[nodiscard]] inline const prometheus::Histogram::BucketBoundaries& duration_bounds() {
  static const prometheus::Histogram::BucketBoundaries bounds{
      5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2,
      5e-2, 0.1,  0.25,   0.5,  1,    2.5,    5,    10,   30};
  return bounds;
}

}  // namespace sluice::service
