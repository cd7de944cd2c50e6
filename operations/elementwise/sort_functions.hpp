// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/sort_call.hpp"

#include <sluice/operations/lane_libraries.hpp>

// The implementations of sorts with at least one row and one element that is kept; see
// `operation_functions`.

namespace sluice::host {
void compute_sort(const operations::sort_call& call, const operations::sort_addresses& addresses);
}  // namespace sluice::host

namespace sluice::cuda {
/// Loads the kernels.
void prepare_sort(lane_libraries& libraries);
/// Enqueues one kernel for the tiles, and one for each time that the sorted parts are merged.
void enqueue_sort(lane_libraries& libraries, const operations::sort_call& call,
                  const operations::sort_addresses& addresses, void* workspace);
}  // namespace sluice::cuda
