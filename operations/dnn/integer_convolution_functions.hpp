// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/integer_convolution_call.hpp"

#include <sluice/operations/operation.hpp>

// The implementations of `integer_convolution`; see `operation_functions`.

namespace sluice::operations {

/// The call, as traces see it.
struct integer_convolution_call : integer_sums {
  [[nodiscard]] launch_facts facts() const noexcept {
    const auto& a = sums.axes;
    double products = static_cast<double>(sums.count()) * static_cast<double>(sums.group_inputs);
    for (const auto& axis : a) products *= static_cast<double>(axis.taps);
    // About four products are computed in the time of one element.
    return {.sizes = {sums.images, sums.y_channels, a[0].y * a[1].y, a[2].y},
            .work = products / 4 + work_of_parts * static_cast<double>(sums.images)};
  }
};

}  // namespace sluice::operations

namespace sluice::host {
/// Computes plane by plane.
void compute_integer_convolution(const operations::integer_sums& call,
                                 const operations::integer_addresses& addresses);
}  // namespace sluice::host

namespace sluice::cuda {
/// Loads the kernel.
void prepare_integer_convolution(lane_libraries& libraries);
/// Enqueues one kernel.
void enqueue_integer_convolution(lane_libraries& libraries, const operations::integer_sums& call,
                                 const operations::integer_addresses& addresses);
}  // namespace sluice::cuda
