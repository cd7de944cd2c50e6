// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/cuda/cudnn_convolution.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>

namespace sluice::cuda {
namespace {

using operations::channel_order;
using operations::check_cudnn;
using operations::convolution_key;
using operations::image_strides;
using operations::spatial;

/// Whether an algorithm transforms its operands, which loses digits of 16-bit numbers.
///@{
bool transforms(cudnnConvolutionFwdAlgo_t algorithm) noexcept {
  return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_FFT ||
         algorithm == CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING ||
         algorithm == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD ||
         algorithm == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED;
}
bool transforms(cudnnConvolutionBwdDataAlgo_t algorithm) noexcept {
  return algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT ||
         algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING ||
         algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD ||
         algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED;
}
///@}

/// Numbers for each dimension. cuDNN counts in `int`, which larger values exclude from its calls.
class int_list {
 public:
  /// The numbers `first`, and those of the last `rank` dimensions of `values`.
  int_list(std::initializer_list<std::int64_t> first, const spatial& values, std::size_t rank) {
    for (const auto value : first) push_back(value);
    for (auto i = values.size() - rank; i < values.size(); ++i) push_back(values[i]);
  }
  [[nodiscard]] const int* data() const noexcept { return values_.data(); }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(count_); }

 private:
  void push_back(std::int64_t value) { values_[count_++] = static_cast<int>(value); }

  std::array<int, 5> values_{};
  std::size_t count_ = 0;
};

void set_tensor(cudnnTensorDescriptor_t tensor, const convolution_key& key, std::int64_t channels,
                const spatial& shape, const image_strides& s) {
  const int_list dimensions({key.n, channels}, shape, key.rank());
  const int_list strides({s.image, s.channel}, s.axes, key.rank());
  check_cudnn(cudnnSetTensorNdDescriptor(tensor, cudnn_type_of(key.type()), dimensions.size(),
                                         dimensions.data(), strides.data()),
              "cudnnSetTensorNdDescriptor");
}

}  // namespace

cudnn_convolution::cudnn_convolution(const convolution_key& key)
    : is_transposed_(key.is_transposed()),
      tf32_(key.tf32 != 0),
      has_16_bits_(key.type() != element_type::f32) {
  set_tensor(input_.get(), key, key.c, key.input, key.input_strides());
  set_tensor(output_.get(), key, key.k, key.output, key.output_strides());
  const int_list filters({key.k, key.c / key.groups}, key.taps, key.rank());
  check_cudnn(cudnnSetFilterNdDescriptor(
                  w_.get(), cudnn_type_of(key.type()),
                  key.order == channel_order::first ? CUDNN_TENSOR_NCHW : CUDNN_TENSOR_NHWC,
                  filters.size(), filters.data()),
              "cudnnSetFilterNdDescriptor");
  const int_list padding({}, key.before, key.rank());
  const int_list stride({}, key.stride, key.rank());
  const int_list dilation({}, key.dilation, key.rank());
  check_cudnn(cudnnSetConvolutionNdDescriptor(convolution_.get(), padding.size(), padding.data(),
                                              stride.data(), dilation.data(),
                                              CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
              "cudnnSetConvolutionNdDescriptor");
  check_cudnn(cudnnSetConvolutionGroupCount(convolution_.get(), static_cast<int>(key.groups)),
              "cudnnSetConvolutionGroupCount");
}

std::vector<convolution_algorithm> cudnn_convolution::proposed(cudnnHandle_t handle) const {
  const auto list = [this](auto performances, const auto& find) {
    int count = 0;
    if (find(static_cast<int>(performances.size()), &count, performances.data()) !=
        CUDNN_STATUS_SUCCESS) {
      count = 0;
    }
    std::vector<convolution_algorithm> algorithms;
    for (const auto& p : std::span(performances).first(static_cast<std::size_t>(count))) {
      if (p.status != CUDNN_STATUS_SUCCESS || p.determinism != CUDNN_DETERMINISTIC) continue;
      if (has_16_bits_ && transforms(p.algo)) continue;
      algorithms.push_back({static_cast<int>(p.algo), p.mathType});
    }
    return algorithms;
  };
  if (is_transposed_) {
    return list(
        std::array<cudnnConvolutionBwdDataAlgoPerf_t, 2 * CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT>{},
        [&](int most, int* count, cudnnConvolutionBwdDataAlgoPerf_t* found) {
          return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, w_.get(), output_.get(),
                                                             convolution_.get(), input_.get(), most,
                                                             count, found);
        });
  }
  return list(std::array<cudnnConvolutionFwdAlgoPerf_t, 2 * CUDNN_CONVOLUTION_FWD_ALGO_COUNT>{},
              [&](int most, int* count, cudnnConvolutionFwdAlgoPerf_t* found) {
                return cudnnGetConvolutionForwardAlgorithm_v7(handle, input_.get(), w_.get(),
                                                              convolution_.get(), output_.get(),
                                                              most, count, found);
              });
}

std::optional<std::size_t> cudnn_convolution::workspace_bytes(cudnnHandle_t handle,
                                                              int algorithm) const {
  std::size_t bytes = 0;
  const auto status = is_transposed_
                          ? cudnnGetConvolutionBackwardDataWorkspaceSize(
                                handle, w_.get(), output_.get(), convolution_.get(), input_.get(),
                                static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm), &bytes)
                          : cudnnGetConvolutionForwardWorkspaceSize(
                                handle, input_.get(), w_.get(), convolution_.get(), output_.get(),
                                static_cast<cudnnConvolutionFwdAlgo_t>(algorithm), &bytes);
  if (status != CUDNN_STATUS_SUCCESS) return std::nullopt;
  return bytes;
}

std::vector<convolution_algorithm> cudnn_convolution::algorithms(cudnnHandle_t handle,
                                                                 std::size_t max_workspace) {
  // The default math type is TF32 wherever that is faster. Products of 16 bits are exact in f32.
  const auto requested = has_16_bits_ ? CUDNN_TENSOR_OP_MATH
                         : tf32_      ? CUDNN_DEFAULT_MATH
                                      : CUDNN_FMA_MATH;
  set_math(requested);
  const auto proposals = proposed(handle);
  std::vector<convolution_algorithm> usable;
  const auto add = [&](int algorithm, cudnnMathType_t math) {
    // The workspace is asked for again: what the heuristics said holds for their own math type.
    set_math(math);
    const auto bytes = workspace_bytes(handle, algorithm);
    if (bytes && *bytes <= max_workspace) usable.push_back({algorithm, math, *bytes});
  };
  for (const auto& p : proposals) {
    add(p.algorithm, tf32_ || has_16_bits_ ? p.math : CUDNN_FMA_MATH);
  }
  if (is_transposed_) {
    add(CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, requested);
  } else {
    add(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, requested);
    add(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, requested);
  }
  return usable;
}

cudnnStatus_t cudnn_convolution::run(cudnnHandle_t handle, const convolution_algorithm& algorithm,
                                     const void* x, const void* w, void* y, void* workspace) {
  const float alpha = 1;
  const float beta = 0;
  const auto status = cudnnSetConvolutionMathType(convolution_.get(), algorithm.math);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (is_transposed_) {
    return cudnnConvolutionBackwardData(
        handle, &alpha, w_.get(), w, output_.get(), x, convolution_.get(),
        static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm.algorithm), workspace,
        algorithm.workspace_bytes, &beta, input_.get(), y);
  }
  return cudnnConvolutionForward(handle, &alpha, input_.get(), x, w_.get(), w, convolution_.get(),
                                 static_cast<cudnnConvolutionFwdAlgo_t>(algorithm.algorithm),
                                 workspace, algorithm.workspace_bytes, &beta, output_.get(), y);
}

void cudnn_convolution::set_math(cudnnMathType_t math) {
  check_cudnn(cudnnSetConvolutionMathType(convolution_.get(), math), "cudnnSetConvolutionMathType");
}

}  // namespace sluice::cuda
