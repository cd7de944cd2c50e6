// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/histogram_call.hpp"

#include <sluice/operations/operation.hpp>

#include <cstdint>

// The implementations of histograms; see `operation_functions`.

namespace sluice::host {
/// Counts elements. Threads count on their own if there are few bins.
void compute_histogram(const operations::histogram_call& call, const void* x, std::int64_t* counts);
}  // namespace sluice::host

namespace sluice::cuda {
/// Loads the kernels.
void prepare_histogram(lane_libraries& libraries);
/// Enqueues one kernel that writes zeros, and one that counts.
void enqueue_histogram(lane_libraries& libraries, const operations::histogram_call& call,
                       const void* x, std::int64_t* counts);
}  // namespace sluice::cuda
