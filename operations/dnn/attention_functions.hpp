// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/attention_call.hpp"

#include <sluice/operations/operation.hpp>

// The implementations of attentions with at least one element; see `operation_functions`.

namespace sluice::host {
/// Computes blocks of queries.
void compute_attention(const operations::attention_call& call,
                       const operations::attention_addresses& addresses);
}  // namespace sluice::host

namespace sluice::cuda {
/// Loads the kernels.
void prepare_attention(lane_libraries& libraries);
/// Enqueues one kernel.
void enqueue_attention(lane_libraries& libraries, const operations::attention_call& call,
                       const operations::attention_addresses& addresses);
}  // namespace sluice::cuda
