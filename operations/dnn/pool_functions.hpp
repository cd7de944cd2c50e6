// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/pool_call.hpp"

#include <sluice/operations/operation.hpp>

#include <algorithm>
#include <cstddef>

// The implementations of pools with at least one result; see `operation_functions`.

namespace sluice::operations {

/// The call of a pool, as traces see it.
struct pooling_call : pool_call {
  [[nodiscard]] launch_facts facts() const noexcept {
    launch_facts facts{.sizes = {planes[0].count * planes[1].count}};
    auto windows = static_cast<double>(facts.sizes[0]);
    double taps = 1;
    for (std::size_t i = 0; i < max_axes; ++i) {
      facts.sizes[i + 1] = axes[i].outputs;
      windows *= static_cast<double>(axes[i].outputs);
      taps *= static_cast<double>(std::min(axes[i].window, axes[i].extent));
    }
    // About four taps are computed in the time of one element if windows share columns.
    const auto lines = windows / static_cast<double>(axes[max_axes - 1].outputs);
    facts.work = shares_columns() ? windows * taps / 4 + work_of_parts * lines
                                  : windows * (2 * taps + work_of_parts);
    constexpr double work_of_power = 12;
    if (kind == window_kind::lp && p > 2) facts.work += windows * taps * work_of_power;
    if (kind == window_kind::response) facts.work += windows * work_of_power;
    return facts;
  }
  /// The call without results: the launch touches no operand.
  [[nodiscard]] static pooling_call without_results(inference& inference) {
    for (const auto& u : inference.uses()) inference.ignore(*u.operand.value);
    pooling_call call;
    call.planes[0].count = 0;
    return call;
  }
  [[nodiscard]] bool has_results() const noexcept { return planes[0].count != 0; }
};

}  // namespace sluice::operations

namespace sluice::host {
/// Computes windows line by line.
void compute_pool(const operations::pool_call& call, const void* x, void* y);
}  // namespace sluice::host

namespace sluice::cuda {
/// Loads the kernels.
void prepare_pool(lane_libraries& libraries);
/// Enqueues one kernel.
void enqueue_pool(lane_libraries& libraries, const operations::pool_call& call, const void* x,
                  void* y);
}  // namespace sluice::cuda
