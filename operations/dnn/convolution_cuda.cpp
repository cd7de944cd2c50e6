// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/convolution_element.hpp"
#include "operations/dnn/convolution_functions.hpp"
#include "operations/dnn/cuda/bias_activation.hpp"
#include "operations/dnn/cuda/check_cudnn.hpp"
#include "operations/dnn/cuda/convolution_trial.hpp"
#include "operations/dnn/cuda/convolution_ways.hpp"
#include "operations/dnn/cuda/cudnn_handle.hpp"
#include "operations/elementwise/layouts.hpp"
#include "runtime/cuda/check.hpp"
#include "runtime/seam.hpp"

#include <sluice/runtime/error.hpp>

#include <cudnn.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cuda {
namespace {

using operations::bias_activation;
using operations::check_cudnn;
using operations::convolution_call;
using operations::convolution_operands;

/// Where there are no products to sum.
class empty_plan final : public operation_plan {
 public:
  std::size_t commands() const noexcept override { return 0; }
};

/// A way to compute one convolution, and those that replace it if cuDNN refuses it at a launch.
class cudnn_plan final : public operation_plan {
 public:
  explicit cudnn_plan(std::vector<std::unique_ptr<convolution_way>> ways)
      : ways_(std::move(ways)) {}

  std::size_t bytes() const noexcept override { return std::size_t{64} << 10U; }
  std::size_t workspace_bytes() const noexcept override { return ways_.front()->workspace_bytes(); }
  std::size_t commands() const noexcept override {
    constexpr std::size_t epilogue = 1;
    std::size_t most = 0;
    for (const auto& way : ways_) most = std::max(most, way->commands());
    return most + epilogue;
  }

  /// Enqueues the convolution. Returns whether Y has its bias and its activation.
  /// @throws error `library_failure`, `unsupported`
  bool run(cudnnHandle_t handle, const convolution_operands& operands, void* workspace) const {
    while (true) {
      const auto status = ways_[way_index_]->run(handle, operands, workspace);
      if (status == CUDNN_STATUS_SUCCESS) return ways_[way_index_]->is_fused();
      // A kernel that failed is no refusal of the way.
      if (status / 1000 == CUDNN_STATUS_EXECUTION_FAILED / 1000 || way_index_ + 1 == ways_.size()) {
        check_cudnn(status, "a convolution of cuDNN");
      }
      (void)cudaGetLastError();  // do not leave it to an unrelated later call
      ++way_index_;
    }
  }

 private:
  // Launches follow each other on one thread.
  std::vector<std::unique_ptr<convolution_way>> ways_;
  mutable std::size_t way_index_ = 0;
};

/// Our kernels, loaded.
struct loaded_dnn_kernels {
  loaded_dnn_kernels(device_runtime& runtime, stream_ref) {
    const current_device_scope current(runtime.device());
    check(static_cast<cudaError_t>(operations::load_bias_activation_kernels()));
    check(static_cast<cudaError_t>(operations::load_elements()));
  }
};

/// Adds the bias and the residual, applies the activation and writes zeros, as far as there is any
/// of it.
void finish(const convolution_call& call, const convolution_operands& operands,
            native_stream* stream) {
  if (call.multiplies && operands.bias == nullptr && operands.residual == nullptr &&
      call.function == activation::none) {
    return;
  }
  const auto size = [](std::int64_t n) {
    return static_cast<std::size_t>(n);
  };
  const auto& o = call.output;
  const bias_activation operation{.type = operations::storage_of(call.type),
                                  .y = operands.y,
                                  .bias = operands.bias,
                                  .residual = operands.residual,
                                  .count = size(o.images * o.image()),
                                  .image = size(o.image()),
                                  .distance = size(o.distance),
                                  .residual_distance = size(o.residual_distance),
                                  .channels = size(o.channels),
                                  .channel_stride = size(o.channel_stride()),
                                  .overwrites = !call.multiplies,
                                  .function = call.function};
  check(static_cast<cudaError_t>(operations::launch_bias_activation(operation, stream)));
}

}  // namespace

std::string dnn_version() {
  const std::size_t v = cudnnGetVersion();
  return std::to_string(v / 10000) + '.' + std::to_string(v / 100 % 100) + '.' +
         std::to_string(v % 100);
}

void prepare_dnn(lane_libraries& libraries) {
  (void)libraries.get<launching_cudnn>();
  (void)libraries.get<planning_cudnn>();
  (void)libraries.get<loaded_dnn_kernels>();
}

std::shared_ptr<const operation_plan> make_convolution_plan(lane_libraries& libraries,
                                                            const convolution_call& call) {
  if (!call.multiplies) return std::make_shared<empty_plan>();
  auto& device = libraries.runtime().device();
  const detail::library_call library_scope(device.id());
  device.require_usable();
  const current_device_scope current(device);
  return std::make_shared<cudnn_plan>(find_convolution_ways(libraries, call.key));
}

void enqueue_convolution(lane_libraries& libraries, const convolution_call& call,
                         const convolution_operands& operands, const operation_plan& plan,
                         void* workspace) {
  const current_device_scope current(libraries.runtime().device());
  const bool is_finished =
      call.multiplies && static_cast<const cudnn_plan&>(plan).run(
                             libraries.get<launching_cudnn>().get(), operands, workspace);
  if (!is_finished) finish(call, operands, libraries.stream().native());
}

}  // namespace sluice::cuda
