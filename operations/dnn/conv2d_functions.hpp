// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/conv2d_call.hpp"

#include <memory>
#include <string>

// The implementations of `conv2d`; see `operation_functions`.

namespace sluice::host {
/// The version of oneDNN.
[[nodiscard]] std::string dnn_version();
/// Makes oneDNN's engine of a lane.
void prepare_dnn(lane_libraries& libraries);
/// Makes the primitives of oneDNN. Convolutions that oneDNN is not made for are computed directly.
[[nodiscard]] std::shared_ptr<const operation_plan> make_conv2d_plan(
    lane_libraries& libraries, const operations::conv2d_call& call);
/// Computes with oneDNN, or directly.
void compute_conv2d(const operations::conv2d_call& call, const launch_of<conv2d>& launch);
}  // namespace sluice::host

namespace sluice::cuda {
/// The version of cuDNN.
[[nodiscard]] std::string dnn_version();
/// Makes the cuDNN handles of a lane and loads our kernels.
void prepare_dnn(lane_libraries& libraries);
/// Refuses sizes and layouts that cuDNN does not take.
/// @throws error `unsupported`
void check_conv2d(const operations::conv2d_call& call);
/// Chooses an algorithm of cuDNN.
[[nodiscard]] std::shared_ptr<const operation_plan> make_conv2d_plan(
    lane_libraries& libraries, const operations::conv2d_call& call);
/// Enqueues with cuDNN.
void enqueue_conv2d(lane_libraries& libraries, const operations::conv2d_call& call,
                    const launch_of<conv2d>& launch);
}  // namespace sluice::cuda
