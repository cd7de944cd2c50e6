// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/reduce_call.hpp"

#include <sluice/operations/launch_descriptor.hpp>
#include <sluice/operations/operation.hpp>
#include <sluice/operations/operation_descriptor.hpp>
#include <sluice/operations/reduce.hpp>

#include <array>
#include <cstddef>

namespace sluice::operations {

/// Which dimensions of X are reduced.
/// @throws error `invalid_argument` if an axis is none or is repeated
[[nodiscard]] std::array<bool, extents::max_rank> reduced_dimensions(const reduce& op,
                                                                     std::size_t rank);
/// Chooses how many threads of a GPU reduce a result, from the shape and the strides alone, so that
/// the result does not depend on the size of the GPU. Each element takes `work` times as long as a
/// load.
void distribute(reduce_call& call, std::int64_t work = 1);
/// The call of a step, if it is a reduction.
[[nodiscard]] const reduce_call* reduce_call_of(const operation_descriptor& descriptor,
                                                const call_storage& call);

}  // namespace sluice::operations

// The implementations of reductions with at least one result; see `operation_functions`.

namespace sluice::host {
/// Reduces in order.
void compute_reduce(const operations::reduce_call& call, const void* x, void* y);
}  // namespace sluice::host

namespace sluice::cuda {
/// Loads the kernels.
void prepare_reduce(lane_libraries& libraries);
/// Enqueues one kernel, or two if results have several parts.
void enqueue_reduce(lane_libraries& libraries, const operations::reduce_call& call, const void* x,
                    void* y, void* workspace);
/// Enqueues the second of the two kernels.
void enqueue_reduced_parts(lane_libraries& libraries, const operations::reduce_call& call,
                           const void* workspace, void* y);
}  // namespace sluice::cuda
