// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace sluice::service {

/// The value of a counter or gauge of whole numbers that are not negative.
template <class Metric>
[[nodiscard]] std::uint64_t whole(const Metric& metric) {
  return static_cast<std::uint64_t>(std::max(metric.Value(), 0.0));
}

}  // namespace sluice::service
