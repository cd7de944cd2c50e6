// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/for_each_index.hpp>

#include <cstdint>

/// The position of the largest number of one row; the first one of several.
struct index_of_max_body {
  std::size_t columns;
  const float* x;
  std::int64_t* y;
  SLUICE_HOST_DEVICE void operator()(std::size_t row) const {
    const float* numbers = x + row * columns;
    std::size_t best = 0;
    for (std::size_t i = 1; i < columns; ++i) {
      if (numbers[i] > numbers[best]) best = i;
    }
    y[row] = static_cast<std::int64_t>(best);
  }
};
