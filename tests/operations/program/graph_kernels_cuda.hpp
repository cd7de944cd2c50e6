// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace sluice::test {

/// y[0] = x[0] + x[1], with both addresses in one argument behind other values.
void enqueue_sum(cudaStream_t stream, const float* x, float* y);
/// y[0] = x[0], by the difference of the addresses. The distance is in elements.
void enqueue_copy_by_distance(cudaStream_t stream, float* y, std::ptrdiff_t from_y_to_x);

/// y = x for `count` elements. Those from the element `boundary` on, which must be at a multiple of
/// 16 bytes, are read four at a time.
void enqueue_copy_from_boundary(cudaStream_t stream, const float* x, float* y, std::size_t count,
                                std::size_t boundary);

}  // namespace sluice::test
