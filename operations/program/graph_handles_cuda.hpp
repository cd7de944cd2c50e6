// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/capture_lock.hpp"
#include "operations/capture_scope.hpp"
#include "operations/program/graph_arguments_cuda.hpp"
#include "runtime/cuda/check.hpp"
#include "runtime/seam.hpp"

#include <cuda_runtime_api.h>

#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cuda {

/// Lets forbidden calls of this thread end its capture. The planner, like all threads of sluice,
/// keeps a capture pass open, in which such calls pass and an allocation of a library would be a
/// part of the graph. Scopes within do not open another pass, so they change nothing.
class strict_capture_mode {
 public:
  strict_capture_mode() { check(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  strict_capture_mode(const strict_capture_mode&) = delete;
  strict_capture_mode& operator=(const strict_capture_mode&) = delete;
  ~strict_capture_mode() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeThreadLocal;
};

/// A graph and its executable form. The nodes of the former name those of the latter.
class graph_handles {
 public:
  explicit graph_handles(device& device) noexcept : device_(device) {}
  graph_handles(const graph_handles&) = delete;
  graph_handles& operator=(const graph_handles&) = delete;
  ~graph_handles() {
    const detail::library_call call(device_.id());
    if (device_.lost()) return;
    const current_device_scope current(device_);
    if (executable_ != nullptr) (void)cudaGraphExecDestroy(executable_);
    if (graph_ != nullptr) (void)cudaGraphDestroy(graph_);
  }

  /// Captures what `work` enqueues on `stream`, a stream of a `capture_scope`. The graph belongs to
  /// the context that is current.
  template <class Work>
  void capture(cudaStream_t stream, const Work& work) {
    const bool is_separate = capture_in_scope(stream, work);
    // Afterwards: while the green context is current, the driver does not take the primary one.
    if (is_separate) use_current_context(graph_);
  }
  /// Exchanges the graphs of a device.
  void swap(graph_handles& other) noexcept {
    std::swap(graph_, other.graph_);
    std::swap(executable_, other.executable_);
  }
  void instantiate() { check(cudaGraphInstantiate(&executable_, graph_, 0)); }
  void upload(cudaStream_t stream) { check(cudaGraphUpload(executable_, stream)); }
  [[nodiscard]] cudaGraph_t get() const noexcept { return graph_; }
  [[nodiscard]] cudaGraphExec_t executable() const noexcept { return executable_; }

 private:
  /// Returns whether the capture was separate.
  template <class Work>
  [[nodiscard]] bool capture_in_scope(cudaStream_t stream, const Work& work) {
    const operations::capture_scope scope(device_);
    const auto alone =
        scope.is_separate() ? std::unique_lock<std::recursive_mutex>() : operations::capture_lock();
    const strict_capture_mode strict;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    std::optional<error> failure;
    try {
      work();
    } catch (...) {
      failure = current_error();
    }
    const auto status = cudaStreamEndCapture(stream, &graph_);
    if (status != cudaSuccess) (void)cudaGetLastError();
    if (failure) throw error(*failure);
    check(status);
    return scope.is_separate();
  }

  device& device_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

[[nodiscard]] inline bool is_of_device(const void* address) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, address));
  return attributes.type == cudaMemoryTypeDevice;
}

/// A copy between two addresses of the device.
struct device_copy {
  cudaGraphNode_t node;
  const void* source;
  const void* target;
};

/// Refuses nodes other than kernels, fills and copies within the device: a copy from memory of the
/// process would read what lies there at the time of each launch. Returns the copies.
[[nodiscard]] inline std::vector<device_copy> audit(const graph_handles& graph) {
  std::vector<device_copy> copies;
  for (const auto node : nodes_of(graph.get())) {
    cudaGraphNodeType type{};
    check(cudaGraphNodeGetType(node, &type));
    if (type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemset) continue;
    if (type != cudaGraphNodeTypeMemcpy) {
      throw error(errc::unsupported, "a step enqueues a node of the type " +
                                         std::to_string(static_cast<int>(type)) + " of CUDA");
    }
    cudaMemcpy3DParms copy{};
    check(cudaGraphMemcpyNodeGetParams(node, &copy));
    if (copy.srcPtr.ptr == nullptr || copy.dstPtr.ptr == nullptr ||
        !is_of_device(copy.srcPtr.ptr) || !is_of_device(copy.dstPtr.ptr)) {
      throw error(errc::unsupported, "a step copies host memory");
    }
    copies.push_back({node, copy.srcPtr.ptr, copy.dstPtr.ptr});
  }
  return copies;
}

}  // namespace sluice::cuda
