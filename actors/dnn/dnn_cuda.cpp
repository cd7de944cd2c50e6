// SPDX-License-Identifier: Apache-2.0
#include "actors/dnn/dnn_cuda.hpp"

#include "actors/dnn/cuda/bias_activation.hpp"
#include "actors/dnn/cuda/check_cudnn.hpp"
#include "actors/plan_cache.hpp"
#include "actors/workspace.hpp"
#include "runtime/cuda/check.hpp"

#include <sluice/runtime/error.hpp>

#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::cuda {

namespace {

using actors::conv2d_description;
using actors::conv2d_plan;

// cuDNN's convolution calls that take descriptors, rather than its graphs: for one convolution at a
// time they cover every geometry, and the bias and the activation are a kernel of our own.

/// A workspace may take an eighth of the GPU's memory, within these bounds.
constexpr std::size_t always_allowed_workspace = std::size_t{256} << 20;
constexpr std::size_t largest_workspace = std::size_t{1} << 30;

/// Operands up to this size, together, are run once when a plan is made.
constexpr std::size_t largest_trial = std::size_t{256} << 20;

/// A descriptor of cuDNN's, made and destroyed by the functions given.
template <class Handle, cudnnStatus_t (*Create)(Handle*), cudnnStatus_t (*Destroy)(Handle)>
class descriptor {
 public:
  descriptor() { check_cudnn(Create(&handle_), "creating a descriptor"); }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() { (void)Destroy(handle_); }
  [[nodiscard]] Handle get() const noexcept { return handle_; }

 private:
  Handle handle_{};
};

using tensor_descriptor =
    descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using filter_descriptor =
    descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using convolution_descriptor =
    descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor,
               cudnnDestroyConvolutionDescriptor>;

/// cuDNN's descriptors count in `int`.
int to_int(const char* name, std::int64_t value) {
  if (value > std::numeric_limits<int>::max()) {
    throw error(errc::unsupported, "conv2d: " + std::string(name) + " is " + std::to_string(value) +
                                       ", which is more than cuDNN takes");
  }
  return static_cast<int>(value);
}

/// How one convolution is computed.
struct algorithm_choice {
  cudnnConvolutionFwdAlgo_t algorithm;
  cudnnMathType_t math;
  std::size_t workspace_bytes = 0;
};

class cudnn_plan final : public conv2d_plan {
 public:
  explicit cudnn_plan(const conv2d_description& d) : conv2d_plan(d) {
    if (y_elements() == 0 || sums_nothing()) return;
    require_indexable("input", x_elements());
    require_indexable("filter", w_elements());
    require_indexable("output", y_elements());
    const conv2d_geometry& g = d.geometry;
    set_tensor(x_, d.input);
    set_tensor(y_, output());
    check_cudnn(
        cudnnSetFilter4dDescriptor(w_.get(), CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW,
                                   to_int("filter.k", d.filter.k), to_int("filter.c", d.filter.c),
                                   to_int("filter.r", d.filter.r), to_int("filter.s", d.filter.s)),
        "cudnnSetFilter4dDescriptor");
    check_cudnn(cudnnSetConvolution2dDescriptor(
                    convolution_.get(), to_int("padding.h", g.padding.h),
                    to_int("padding.w", g.padding.w), to_int("stride.h", g.stride.h),
                    to_int("stride.w", g.stride.w), to_int("dilation.h", g.dilation.h),
                    to_int("dilation.w", g.dilation.w), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
                "cudnnSetConvolution2dDescriptor");
    check_cudnn(cudnnSetConvolutionGroupCount(convolution_.get(), to_int("groups", g.groups)),
                "cudnnSetConvolutionGroupCount");
    set_math(requested_math());
  }

  /// What cuDNN's heuristics propose, best first, and behind it what takes every geometry.
  [[nodiscard]] std::vector<algorithm_choice> candidates(cudnnHandle_t handle,
                                                         std::size_t max_workspace) {
    std::array<cudnnConvolutionFwdAlgoPerf_t, 2 * CUDNN_CONVOLUTION_FWD_ALGO_COUNT> proposed{};
    int count = 0;
    set_math(requested_math());
    const cudnnStatus_t status = cudnnGetConvolutionForwardAlgorithm_v7(
        handle, x_.get(), w_.get(), convolution_.get(), y_.get(), static_cast<int>(proposed.size()),
        &count, proposed.data());
    if (status != CUDNN_STATUS_SUCCESS) count = 0;

    std::vector<algorithm_choice> usable;
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
      add(p.algo, description().math == math_mode::f32 ? CUDNN_FMA_MATH : p.mathType);
    }
    add(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, requested_math());
    add(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, requested_math());
    return usable;
  }

  /// Settles on `choice`. The descriptor keeps its math type from here on.
  void choose(const algorithm_choice& choice) {
    set_math(choice.math);
    choice_ = choice;
  }
  [[nodiscard]] const algorithm_choice& choice() const noexcept { return choice_; }

  /// Queues y = conv(x, w).
  [[nodiscard]] cudnnStatus_t convolve(cudnnHandle_t handle, const float* x, const float* w,
                                       float* y, void* workspace) const noexcept {
    const float one = 1;
    const float zero = 0;
    return cudnnConvolutionForward(handle, &one, x_.get(), x, w_.get(), w, convolution_.get(),
                                   choice_.algorithm, workspace, choice_.workspace_bytes, &zero,
                                   y_.get(), y);
  }

 private:
  [[nodiscard]] cudnnMathType_t requested_math() const noexcept {
    // The default math type is TF32 wherever that is faster.
    return description().math == math_mode::f32 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
  }

  void set_math(cudnnMathType_t math) {
    check_cudnn(cudnnSetConvolutionMathType(convolution_.get(), math),
                "cudnnSetConvolutionMathType");
  }

  static void set_tensor(const tensor_descriptor& tensor, const nchw_shape& shape) {
    check_cudnn(cudnnSetTensor4dDescriptor(tensor.get(), CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
                                           to_int("n", shape.n), to_int("c", shape.c),
                                           to_int("h", shape.h), to_int("w", shape.w)),
                "cudnnSetTensor4dDescriptor");
  }

  static void require_indexable(const char* name, std::size_t elements) {
    if (elements > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
      throw error(errc::unsupported, "conv2d: the " + std::string(name) + " has " +
                                         std::to_string(elements) +
                                         " elements, which is more than cuDNN takes");
    }
  }

  tensor_descriptor x_;
  filter_descriptor w_;
  tensor_descriptor y_;
  convolution_descriptor convolution_;
  algorithm_choice choice_{};
};

class cudnn final : public actors::dnn_library {
 public:
  cudnn(device_runtime& runtime, stream_ref stream)
      : runtime_(runtime),
        device_(runtime.device()),
        stream_(stream),
        workspace_(runtime, stream, "cudnn workspace"),
        max_workspace_(std::clamp(device_.info().memory_bytes / 8, always_allowed_workspace,
                                  largest_workspace)) {
    const detail::library_call call(device_.id());
    device_.require_usable();
    const current_device_scope current(device_);
    check_cudnn(cudnnCreate(&handle_), "cudnnCreate");
    try {
      check_cudnn(cudnnSetStream(handle_, reinterpret_cast<cudaStream_t>(stream.native())),
                  "cudnnSetStream");
    } catch (...) {
      destroy();
      throw;
    }
  }

  ~cudnn() override {
    const detail::library_call call(device_.id());
    const current_device_scope current(device_);
    destroy();
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "cuDNN"; }

  [[nodiscard]] std::string version() const override {
    const std::size_t v = cudnnGetVersion();
    return std::to_string(v / 10000) + '.' + std::to_string(v / 100 % 100) + '.' +
           std::to_string(v % 100);
  }

  [[nodiscard]] std::shared_ptr<const conv2d_plan> prepare(
      const conv2d_description& description) override {
    return plans_.find_or_make(description, [&] {
      const detail::library_call call(device_.id());
      device_.require_usable();
      const current_device_scope current(device_);
      auto plan = std::make_shared<cudnn_plan>(description);
      if (plan->y_elements() != 0 && !plan->sums_nothing()) settle(*plan);
      return plan;
    });
  }

  void conv2d(const conv2d_plan& plan, const float* x, const float* w, const float* bias,
              float* y) override {
    if (plan.y_elements() == 0) return;
    const current_device_scope current(device_);
    const auto& mine = static_cast<const cudnn_plan&>(plan);
    if (plan.sums_nothing()) {
      const float zero = 0;
      device_.fill(y, &zero, sizeof zero, plan.y_elements(), stream_.native());
    } else {
      check_cudnn(mine.convolve(handle_, x, w, y, workspace_.address()), "cudnnConvolutionForward");
    }
    finish(plan, bias, y);
  }

 private:
  /// Adds the bias and applies the activation, where there are any.
  void finish(const conv2d_plan& plan, const float* bias, float* y) {
    const bool relu = plan.description().activation == activation::relu;
    if (bias == nullptr && !relu) return;
    const nchw_shape& shape = plan.output();
    const bias_activation operation{.y = y,
                                    .bias = bias,
                                    .count = plan.y_elements(),
                                    .plane = static_cast<std::size_t>(shape.h * shape.w),
                                    .channels = static_cast<std::size_t>(shape.c),
                                    .relu = relu};
    check(static_cast<cudaError_t>(launch_bias_activation(operation, stream_.native())));
  }

  /// Takes the first algorithm that works.
  void settle(cudnn_plan& plan) {
    std::optional<error> failure;
    for (const algorithm_choice& candidate : plan.candidates(handle_, max_workspace_)) {
      try {
        workspace_.require(candidate.workspace_bytes);
      } catch (const error& e) {
        // The last candidates need little or nothing.
        if (!is_retryable(e.code())) throw;
        failure = e;
        continue;
      }
      plan.choose(candidate);
      const cudnnStatus_t status = try_out(plan);
      if (status == CUDNN_STATUS_SUCCESS) return;
      (void)cudaGetLastError();  // do not leave it to an unrelated later call
      failure = error(errc::unsupported,
                      std::string("conv2d: cuDNN cannot compute this convolution: ") +
                          cudnnGetErrorString(status),
                      library_status{"cuDNN", static_cast<long>(status)});
    }
    if (failure) throw *failure;
    throw error(errc::unsupported, "conv2d: cuDNN has no algorithm for this convolution");
  }

  /// Runs the convolution once on zeros: an algorithm can refuse when it is launched only, and the
  /// first launch loads kernels, which must not happen between a preflight and its commit. Large
  /// ones are let off.
  [[nodiscard]] cudnnStatus_t try_out(const cudnn_plan& plan) {
    const auto aligned = [](std::size_t count) {
      return (count + 63) / 64 * 64;
    };
    actors::workspace operands(runtime_, stream_, "cudnn trial");
    const std::size_t total = aligned(plan.x_elements()) + aligned(plan.w_elements()) +
                              aligned(plan.bias_elements()) + aligned(plan.y_elements());
    if (total > largest_trial / sizeof(float)) return CUDNN_STATUS_SUCCESS;
    try {
      operands.require(total * sizeof(float));
    } catch (const error& failure) {
      if (!is_retryable(failure.code())) throw;
      return CUDNN_STATUS_SUCCESS;
    }
    float* const x = static_cast<float*>(operands.address());
    float* const w = x + aligned(plan.x_elements());
    float* const bias = w + aligned(plan.w_elements());
    float* const y = bias + aligned(plan.bias_elements());
    const float zero = 0;
    device_.fill(x, &zero, sizeof zero, total, stream_.native());
    const cudnnStatus_t status = plan.convolve(handle_, x, w, y, workspace_.address());
    if (status == CUDNN_STATUS_SUCCESS) finish(plan, plan.bias_elements() == 0 ? nullptr : bias, y);
    return status;
  }

  void destroy() noexcept {
    // After a fault the handle is lost with the device.
    if (handle_ == nullptr || device_.lost()) return;
    if (const cudnnStatus_t status = cudnnDestroy(handle_); status != CUDNN_STATUS_SUCCESS) {
      std::fprintf(stderr, "sluice: cudnnDestroy: %s\n", cudnnGetErrorString(status));
    }
    handle_ = nullptr;
  }

  device_runtime& runtime_;
  device& device_;
  stream_ref stream_;
  actors::workspace workspace_;
  std::size_t max_workspace_;
  cudnnHandle_t handle_ = nullptr;
  actors::plan_cache<conv2d_description, conv2d_plan> plans_{64};
};

}  // namespace

std::unique_ptr<actors::dnn_library> make_dnn_library(device_runtime& runtime, stream_ref stream) {
  return std::make_unique<cudnn>(runtime, stream);
}

}  // namespace sluice::cuda
