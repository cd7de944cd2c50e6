// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/convolution_call.hpp"
#include "operations/dnn/cuda/check_cudnn.hpp"

#include <cudnn.h>

#include <cstddef>
#include <optional>
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
  int algorithm;  ///< a `cudnnConvolutionFwdAlgo_t`, or a `cudnnConvolutionBwdDataAlgo_t`
  cudnnMathType_t math;
  std::size_t workspace_bytes = 0;
};

/// A convolution, or a transposed one, as cuDNN's calls with descriptors take it: with one padding
/// for both ends of a dimension. Not thread-safe.
class cudnn_convolution {
 public:
  /// @throws error `unsupported`, `library_failure`
  explicit cudnn_convolution(const operations::convolution_key& key);

  /// What cuDNN's heuristics propose with at most `max_workspace` bytes, best first, then the
  /// algorithms that take every geometry.
  [[nodiscard]] std::vector<convolution_algorithm> algorithms(cudnnHandle_t handle,
                                                              std::size_t max_workspace);
  /// Enqueues y = conv(x, w), with the x and the y of the key. Does not synchronize.
  [[nodiscard]] cudnnStatus_t run(cudnnHandle_t handle, const convolution_algorithm& algorithm,
                                  const void* x, const void* w, void* y, void* workspace);

 private:
  /// What cuDNN's heuristics propose, deterministic algorithms only, with the math that they
  /// propose.
  [[nodiscard]] std::vector<convolution_algorithm> proposed(cudnnHandle_t handle) const;
  /// The scratch memory of an algorithm; nothing if it does not take the convolution.
  [[nodiscard]] std::optional<std::size_t> workspace_bytes(cudnnHandle_t handle,
                                                           int algorithm) const;
  void set_math(cudnnMathType_t math);

  cudnn_descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor,
                   cudnnDestroyTensorDescriptor>
      input_, output_;  // of the forward convolution
  cudnn_descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor,
                   cudnnDestroyFilterDescriptor>
      w_;
  cudnn_descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor,
                   cudnnDestroyConvolutionDescriptor>
      convolution_;
  bool is_transposed_;
  bool tf32_;
  bool has_16_bits_;
};

}  // namespace sluice::cuda
