// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/cuda/cudnn_convolution.hpp"

#include <array>
#include <span>

namespace sluice::cuda {
namespace {

using operations::channel_order;
using operations::check_cudnn;
using operations::conv2d_key;
using operations::image_strides;

/// cuDNN counts in `int`; `check` has refused larger values.
int to_int(std::int64_t value) noexcept {
  return static_cast<int>(value);
}

void set_tensor(cudnnTensorDescriptor_t tensor, element_type type, std::int64_t n, std::int64_t c,
                std::int64_t h, std::int64_t w, const image_strides& s) {
  check_cudnn(cudnnSetTensor4dDescriptorEx(tensor, cudnn_type_of(type), to_int(n), to_int(c),
                                           to_int(h), to_int(w), to_int(s.image), to_int(s.channel),
                                           to_int(s.row), to_int(s.column)),
              "cudnnSetTensor4dDescriptorEx");
}

}  // namespace

cudnn_convolution::cudnn_convolution(const conv2d_key& key)
    : tf32_(key.tf32 != 0), has_16_bits_(key.type() != element_type::f32) {
  set_tensor(x_.get(), key.type(), key.n, key.c, key.h, key.w, key.x_strides());
  set_tensor(y_.get(), key.type(), key.n, key.k, key.output_h, key.output_w, key.y_strides());
  check_cudnn(cudnnSetFilter4dDescriptor(
                  w_.get(), cudnn_type_of(key.type()),
                  key.order == channel_order::first ? CUDNN_TENSOR_NCHW : CUDNN_TENSOR_NHWC,
                  to_int(key.k), to_int(key.c / key.groups), to_int(key.r), to_int(key.s)),
              "cudnnSetFilter4dDescriptor");
  check_cudnn(cudnnSetConvolution2dDescriptor(
                  convolution_.get(), to_int(key.padding_h), to_int(key.padding_w),
                  to_int(key.stride_h), to_int(key.stride_w), to_int(key.dilation_h),
                  to_int(key.dilation_w), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
              "cudnnSetConvolution2dDescriptor");
  check_cudnn(cudnnSetConvolutionGroupCount(convolution_.get(), to_int(key.groups)),
              "cudnnSetConvolutionGroupCount");
}

std::vector<convolution_algorithm> cudnn_convolution::algorithms(cudnnHandle_t handle,
                                                                 std::size_t max_workspace) {
  // The default math type is TF32 wherever that is faster. Products of 16 bits are exact in f32.
  const auto requested = has_16_bits_ ? CUDNN_TENSOR_OP_MATH
                         : tf32_      ? CUDNN_DEFAULT_MATH
                                      : CUDNN_FMA_MATH;
  std::array<cudnnConvolutionFwdAlgoPerf_t, 2 * CUDNN_CONVOLUTION_FWD_ALGO_COUNT> proposed{};
  int count = 0;
  set_math(requested);
  const cudnnStatus_t status = cudnnGetConvolutionForwardAlgorithm_v7(
      handle, x_.get(), w_.get(), convolution_.get(), y_.get(), static_cast<int>(proposed.size()),
      &count, proposed.data());
  if (status != CUDNN_STATUS_SUCCESS) count = 0;

  std::vector<convolution_algorithm> usable;
  const auto add = [&](cudnnConvolutionFwdAlgo_t algorithm, cudnnMathType_t math) {
    // The workspace is asked for again: what the heuristics said holds for their own math type.
    set_math(math);
    std::size_t bytes = 0;
    if (cudnnGetConvolutionForwardWorkspaceSize(handle, x_.get(), w_.get(), convolution_.get(),
                                                y_.get(), algorithm,
                                                &bytes) == CUDNN_STATUS_SUCCESS &&
        bytes <= max_workspace) {
      usable.push_back({algorithm, math, bytes});
    }
  };
  for (const auto& p : std::span(proposed).first(static_cast<std::size_t>(count))) {
    if (p.status != CUDNN_STATUS_SUCCESS || p.determinism != CUDNN_DETERMINISTIC) continue;
    add(p.algo, tf32_ || has_16_bits_ ? p.mathType : CUDNN_FMA_MATH);
  }
  add(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, requested);
  add(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, requested);
  return usable;
}

cudnnStatus_t cudnn_convolution::run(cudnnHandle_t handle, const convolution_algorithm& algorithm,
                                     const void* x, const void* w, void* y, void* workspace) {
  const float alpha = 1;
  const float beta = 0;
  const auto status = cudnnSetConvolutionMathType(convolution_.get(), algorithm.math);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  return cudnnConvolutionForward(handle, &alpha, x_.get(), x, w_.get(), w, convolution_.get(),
                                 algorithm.algorithm, workspace, algorithm.workspace_bytes, &beta,
                                 y_.get(), y);
}

void cudnn_convolution::set_math(cudnnMathType_t math) {
  check_cudnn(cudnnSetConvolutionMathType(convolution_.get(), math), "cudnnSetConvolutionMathType");
}

}  // namespace sluice::cuda
