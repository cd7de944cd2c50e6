// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/cuda/graph_descriptor.hpp"

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice::cuda {

/// What an engine may do. None of those that are taken is nondeterministic, sums in 16 bits,
/// transforms to frequencies, or compiles its kernels when the plan is made.
struct engine_requirements {
  bool needs_tensor_cores = false;
  bool allows_tensor_cores = true;  ///< which round factors of f32 to TF32
  bool allows_winograd = true;      ///< whose transforms lose digits of 16-bit numbers
};

/// The engines that cuDNN's heuristics propose for a graph, best first, each with its parameters.
/// Empty if there are none.
/// @param graph a finalized graph
[[nodiscard]] std::vector<graph_descriptor> proposed_engines(
    const graph_descriptor& graph, const engine_requirements& requirements);

/// A graph that an engine computes. Any number of threads may run it, each with its handle.
class graph_plan {
 public:
  /// The plan with a proposed engine; nothing if the engine does not take the graph, or needs more
  /// than `max_workspace` bytes. Slow.
  [[nodiscard]] static std::optional<graph_plan> make(cudnnHandle_t handle, graph_descriptor engine,
                                                      std::size_t max_workspace);

  [[nodiscard]] std::size_t workspace_bytes() const noexcept { return workspace_bytes_; }
  /// Enqueues the graph. Does not synchronize.
  /// @param tensors the identifiers of the tensors of the graph
  /// @param addresses the address of each
  [[nodiscard]] cudnnStatus_t run(cudnnHandle_t handle, std::span<const std::int64_t> tensors,
                                  std::span<void* const> addresses, void* workspace) const noexcept;

 private:
  graph_plan(graph_descriptor engine, graph_descriptor plan, std::size_t workspace_bytes) noexcept;

  graph_descriptor engine_;
  graph_descriptor plan_;
  std::size_t workspace_bytes_;
};

}  // namespace sluice::cuda
