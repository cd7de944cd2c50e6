// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/convolution_call.hpp"
#include "operations/dnn/cuda/convolution_ways.hpp"

#include <sluice/operations/lane_libraries.hpp>

#include <memory>
#include <vector>

namespace sluice::cuda {

/// Finds a way for a convolution, on the stream of the lane.
///
/// It convolves zeros in the first way that works: cuDNN can refuse a way at its launch only, and
/// the first launch loads kernels. If that is a plan of a graph and the lane may try algorithms,
/// the fastest of several ways is taken, and remembered for this convolution. If the operands
/// are large or there is no memory, nothing is tried.
/// @return the way, and those that replace it if cuDNN refuses it at a launch; not empty
/// @throws error `unsupported`, `out_of_memory`, `library_failure`, `device_lost`
[[nodiscard]] std::vector<std::unique_ptr<convolution_way>> find_convolution_ways(
    lane_libraries& libraries, const operations::convolution_key& key);

}  // namespace sluice::cuda
