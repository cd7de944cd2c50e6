// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/convolution_element.hpp"
#include "operations/dnn/convolution_functions.hpp"
#include "operations/dnn/cuda/bias_activation.hpp"
#include "operations/dnn/cuda/check_cudnn.hpp"
#include "operations/dnn/cuda/convolution_ways.hpp"
#include "operations/dnn/cuda/cudnn_handle.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/workspace.hpp"
#include "runtime/cuda/check.hpp"
#include "runtime/seam.hpp"

#include <sluice/runtime/error.hpp>

#include <cudnn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cuda {
namespace {

using operations::bias_activation;
using operations::check_cudnn;
using operations::convolution_call;
using operations::convolution_key;
using operations::convolution_operands;

/// The most scratch memory that an algorithm may need.
constexpr std::size_t max_workspace = std::size_t{256} << 20U;

/// Operands up to this size, together, are convolved once when a plan is made.
constexpr std::size_t max_trial = std::size_t{256} << 20U;

/// Where there are no products to sum.
class empty_plan final : public operation_plan {
 public:
  std::size_t commands() const noexcept override { return 0; }
};

/// A way to compute one convolution, and those that replace it if cuDNN refuses it at a launch.
class cudnn_plan final : public operation_plan {
 public:
  std::size_t bytes() const noexcept override { return std::size_t{64} << 10U; }
  std::size_t workspace_bytes() const noexcept override { return ways_.front()->workspace_bytes(); }
  std::size_t commands() const noexcept override { return 16; }

  /// Adds a way, behind those that it may replace, if it needs no more memory than the first one.
  void add(std::unique_ptr<convolution_way> way) {
    if (ways_.empty() || way->workspace_bytes() <= workspace_bytes()) {
      ways_.push_back(std::move(way));
    }
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

/// Memory for zeros in place of the operands of a convolution, behind the workspace.
struct trial_layout {
  explicit trial_layout(const convolution_key& key) {
    const auto bytes = [size = size_of(key.type())](std::int64_t elements) {
      return (static_cast<std::size_t>(elements) * size + 255) / 256 * 256;
    };
    w = bytes(key.x_extent());
    bias = w + bytes(key.w_extent());
    y = bias + bytes(key.y_channels());
    end = y + bytes(key.y_extent()) + max_alignment;
    // cuDNN refuses some operands for their alignment, at a launch only.
    shift = key.alignment < max_alignment ? static_cast<std::size_t>(key.alignment) : 0;
  }
  static constexpr std::int64_t max_alignment = 16;
  std::size_t w;      // position of W, in bytes
  std::size_t bias;   // position of the bias, in bytes
  std::size_t y;      // position of Y, in bytes
  std::size_t end;    // size of all operands, in bytes
  std::size_t shift;  // of all operands, in bytes
};

/// Makes `scratch` at least `bytes` large. False if there is no memory now.
bool try_require(operations::workspace& scratch, std::size_t bytes) {
  try {
    scratch.require(bytes);
    return true;
  } catch (const error& e) {
    if (!is_retryable(e.code())) throw;
    return false;
  }
}

/// Convolves zeros in the first way that works, and makes a plan of it. cuDNN can refuse a way at
/// its launch only, and the first launch loads kernels. If the operands are large or there is no
/// memory, nothing is tried, and the plan has the replacements too.
std::shared_ptr<const cudnn_plan> settle(const convolution_key& key, lane_libraries& libraries) {
  auto& device = libraries.runtime().device();
  auto* const handle = libraries.get<planning_cudnn>().get();
  const auto stream = libraries.stream();
  auto plan = std::make_shared<cudnn_plan>();
  convolution_ways ways(handle, key, max_workspace);
  const trial_layout layout(key);
  operations::workspace scratch(libraries.runtime(), stream, "cudnn trial");
  cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED;
  std::optional<error> no_memory;
  while (auto way = ways.next()) {
    const auto workspace_bytes = (way->workspace_bytes() + 255) / 256 * 256;
    if (layout.end > max_trial || !try_require(scratch, workspace_bytes + layout.end)) {
      if (try_require(scratch, workspace_bytes)) {
        plan->add(std::move(way));
        ways.skip_plans();
        while (auto replacement = ways.next()) plan->add(std::move(replacement));
        return plan;
      }
      no_memory = error(errc::out_of_memory, "convolution: there is no memory for the workspace");
      continue;
    }
    auto* const first = static_cast<std::byte*>(scratch.address());
    auto* const x = first + workspace_bytes + layout.shift;
    const unsigned char zero = 0;
    device.fill(first + workspace_bytes, &zero, 1, layout.end, stream.native());
    status = way->run(handle, {x, x + layout.w, x + layout.bias, nullptr, x + layout.y}, first);
    if (status == CUDNN_STATUS_SUCCESS) {
      plan->add(std::move(way));
      return plan;
    }
    (void)cudaGetLastError();  // do not leave it to an unrelated later call
    device.require_usable();
  }
  if (no_memory) throw *no_memory;
  throw error(errc::unsupported,
              std::string("convolution: cuDNN has no algorithm for this geometry: ") +
                  cudnnGetErrorString(status),
              library_status{"cuDNN", static_cast<long>(status)});
}

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
  return settle(call.key, libraries);
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
