// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/conv2d_call.hpp"
#include "operations/dnn/cuda/check_cudnn.hpp"

#include <cudnn.h>

#include <cstddef>
#include <vector>

namespace sluice::cuda {

/// The type of f16, bf16 or f32 elements.
[[nodiscard]] inline cudnnDataType_t cudnn_type_of(element_type type) noexcept {
  switch (type) {
    case element_type::f16:
      return CUDNN_DATA_HALF;
    case element_type::bf16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

/// A descriptor of cuDNN's, made and destroyed by the functions given.
template <class Handle, cudnnStatus_t (*Create)(Handle*), cudnnStatus_t (*Destroy)(Handle)>
class cudnn_descriptor {
 public:
  cudnn_descriptor() { operations::check_cudnn(Create(&handle_), "creating a descriptor"); }
  cudnn_descriptor(const cudnn_descriptor&) = delete;
  cudnn_descriptor& operator=(const cudnn_descriptor&) = delete;
  ~cudnn_descriptor() { (void)Destroy(handle_); }
  [[nodiscard]] Handle get() const noexcept { return handle_; }

 private:
  Handle handle_{};
};

/// How one convolution is computed.
struct convolution_algorithm {
  cudnnConvolutionFwdAlgo_t algorithm;
  cudnnMathType_t math;
  std::size_t workspace_bytes = 0;
};

/// A convolution as cuDNN's calls with descriptors take it. Not thread-safe.
class cudnn_convolution {
 public:
  /// @throws error `unsupported`, `library_failure`
  explicit cudnn_convolution(const operations::conv2d_key& key);

  /// What cuDNN's heuristics propose with at most `max_workspace` bytes, best first, then the
  /// algorithms that take every geometry.
  [[nodiscard]] std::vector<convolution_algorithm> algorithms(cudnnHandle_t handle,
                                                              std::size_t max_workspace);
  /// Enqueues y = conv(x, w). Does not synchronize.
  [[nodiscard]] cudnnStatus_t run(cudnnHandle_t handle, const convolution_algorithm& algorithm,
                                  const void* x, const void* w, void* y, void* workspace);

 private:
  void set_math(cudnnMathType_t math);

  cudnn_descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor,
                   cudnnDestroyTensorDescriptor>
      x_, y_;
  cudnn_descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor,
                   cudnnDestroyFilterDescriptor>
      w_;
  cudnn_descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor,
                   cudnnDestroyConvolutionDescriptor>
      convolution_;
  bool tf32_;
  bool has_16_bits_;
};

}  // namespace sluice::cuda
