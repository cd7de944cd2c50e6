// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/for_each_index.hpp>

/// y = a · x + y at one index, on both devices.
struct saxpy_body {
  float a;
  const float* x;
  float* y;
  SLUICE_HOST_DEVICE void operator()(std::size_t i) const { y[i] += a * x[i]; }
};
