// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/convolution_inference.hpp"

#include <sluice/operations/operation.hpp>

#include <memory>
#include <string>
#include <string_view>

// The implementations of convolutions; see `operation_functions`.

namespace sluice::host {
/// The version of oneDNN.
[[nodiscard]] std::string dnn_version();
/// Makes oneDNN's engine of a lane.
void prepare_dnn(lane_libraries& libraries);
/// Makes the primitives of oneDNN. Convolutions that oneDNN is not made for are computed directly.
[[nodiscard]] std::shared_ptr<const operation_plan> make_convolution_plan(
    lane_libraries& libraries, const operations::convolution_call& call);
/// Computes with oneDNN, or directly.
/// @param plan made for `call`
void compute_convolution(const operations::convolution_call& call,
                         const operations::convolution_operands& operands,
                         const operation_plan& plan, void* workspace);
/// The layout in which the plan of a call computes with W.
[[nodiscard]] prepacked_layout layout_of_filters(const operations::convolution_call& call,
                                                 const operation_plan& plan);
/// Makes a copy of W in this layout.
void prepack_filters(const operations::convolution_call& call, const operation_plan& plan,
                     const void* w, void* copy);
}  // namespace sluice::host

namespace sluice::cuda {
/// The version of cuDNN.
[[nodiscard]] std::string dnn_version();
/// Makes the cuDNN handles of a lane and loads our kernels.
void prepare_dnn(lane_libraries& libraries);
/// Chooses an algorithm of cuDNN.
[[nodiscard]] std::shared_ptr<const operation_plan> make_convolution_plan(
    lane_libraries& libraries, const operations::convolution_call& call);
/// Enqueues with cuDNN, or our own kernel if cuDNN takes no such convolution.
/// @param plan made for `call`
void enqueue_convolution(lane_libraries& libraries, const operations::convolution_call& call,
                         const operations::convolution_operands& operands,
                         const operation_plan& plan, void* workspace);
}  // namespace sluice::cuda

namespace sluice::operations {

template <class Operation>
[[nodiscard]] convolution_operands operands_of(const launch_of<Operation>& launch) {
  return {launch.template get<const void>(&Operation::x),
          launch.template get<const void>(&Operation::w),
          launch.template get<const void>(&Operation::bias),
          launch.template get<const void>(&Operation::residual),
          launch.template get<void>(&Operation::y),
          launch.is_prepacked(&Operation::w)};
}

template <class Operation>
using convolution_descriptor = typed_operation_descriptor<Operation, convolution_call>;

/// The functions of one of the operations, with its `infer`. Those of a library that the build does
/// not have are null.
template <class Operation>
[[nodiscard]] operation_functions<Operation, convolution_call> convolution_functions(
    std::string_view name, convolution_call (*infer)(const Operation&, inference&)) {
  operation_functions<Operation, convolution_call> functions{.name = name, .infer = infer};
  functions.host.library = "oneDNN";
  functions.cuda.library = "cuDNN";
  functions.can_be_captured = true;
#ifdef SLUICE_HAS_ONEDNN
  functions.host.version = host::dnn_version;
  functions.host.prepare = host::prepare_dnn;
  functions.host.make_plan = host::make_convolution_plan;
  functions.host.prepacked = [](const convolution_call& call, const operation_plan* plan,
                                operand Operation::*input) {
    return input == &Operation::w ? host::layout_of_filters(call, *plan) : prepacked_layout();
  };
  functions.host.prepack = [](lane_libraries&, const convolution_call& call,
                              const prepacking_of<Operation>& packing) {
    host::prepack_filters(call, *packing.plan, packing.source, packing.copy);
  };
  functions.compute = [](const convolution_call& call, const launch_of<Operation>& launch) {
    if (call.output.empty()) return;
    host::compute_convolution(call, operands_of(launch), launch.template plan<operation_plan>(),
                              launch.workspace());
  };
#endif
#ifdef SLUICE_HAS_CUDNN
  functions.cuda.version = cuda::dnn_version;
  functions.cuda.prepare = cuda::prepare_dnn;
  functions.cuda.make_plan = cuda::make_convolution_plan;
  functions.enqueue = [](lane_libraries& libraries, const convolution_call& call,
                         const launch_of<Operation>& launch) {
    if (call.output.empty()) return;
    cuda::enqueue_convolution(libraries, call, operands_of(launch),
                              launch.template plan<operation_plan>(), launch.workspace());
  };
#endif
  return functions;
}

}  // namespace sluice::operations
