// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/conv2d_call.hpp"
#include "operations/dnn/cuda/convolution_graph.hpp"
#include "operations/dnn/cuda/cudnn_convolution.hpp"
#include "operations/dnn/cuda/graph_plan.hpp"

#include <cudnn.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace sluice::cuda {

/// A way in which cuDNN computes a convolution.
class convolution_way {
 public:
  convolution_way() = default;
  convolution_way(const convolution_way&) = delete;
  convolution_way& operator=(const convolution_way&) = delete;
  virtual ~convolution_way() = default;
  [[nodiscard]] virtual std::size_t workspace_bytes() const noexcept = 0;
  /// Whether the result has its bias and its activation.
  [[nodiscard]] virtual bool is_fused() const noexcept = 0;
  /// Enqueues the convolution. Does not synchronize. Only one thread at a time may call it.
  [[nodiscard]] virtual cudnnStatus_t run(cudnnHandle_t handle,
                                          const convolution_operands& operands,
                                          void* workspace) = 0;
};

/// The ways for one convolution, best first: plans of the graph with the epilogue, plans of the
/// convolution alone, and then cuDNN's calls with descriptors. In f32, without TF32, only calls. A
/// call costs the processor several times as much as the launch of a plan, but calls cover every
/// geometry, and cuDNN's list of engines for all geometries takes 6 to 130 ms. A way is made when
/// it is asked for.
class convolution_ways {
 public:
  /// @param max_workspace the most scratch memory of a way, in bytes
  convolution_ways(cudnnHandle_t handle, const operations::conv2d_key& key,
                   std::size_t max_workspace);

  /// The next way; null if there are no more.
  /// @throws error `unsupported`, `library_failure`
  [[nodiscard]] std::unique_ptr<convolution_way> next();
  /// Leaves out plans from here on.
  void skip_plans() noexcept { stage_ = stage::calls; }

 private:
  enum class stage { fused, plain, calls };
  [[nodiscard]] static stage first_stage(const operations::conv2d_key& key) noexcept;
  [[nodiscard]] std::unique_ptr<convolution_way> next_plan();
  [[nodiscard]] std::unique_ptr<convolution_way> next_call();
  /// Makes the graph of the stage and the list of its engines.
  void propose_engines();

  cudnnHandle_t handle_;
  operations::conv2d_key key_;
  std::size_t max_workspace_;
  stage stage_;
  std::shared_ptr<const convolution_graph> graph_;  // of the stage, once there is one
  std::vector<graph_descriptor> engines_;           // for the graph, best last
  std::shared_ptr<cudnn_convolution> convolution_;
  std::vector<convolution_algorithm> algorithms_;  // best last
};

}  // namespace sluice::cuda
