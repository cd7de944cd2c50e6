// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/convolution_call.hpp"
#include "operations/dnn/cuda/convolution_graph.hpp"
#include "operations/dnn/cuda/cudnn_convolution.hpp"
#include "operations/dnn/cuda/graph_plan.hpp"

#include <cudnn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
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
  /// How many device commands `run` enqueues; cuDNN does not state it, so that this is a guess.
  [[nodiscard]] virtual std::size_t commands() const noexcept = 0;
  /// Whether the result has its bias and its activation.
  [[nodiscard]] virtual bool is_fused() const noexcept = 0;
  /// Enqueues the convolution. Does not synchronize. Only one thread at a time may call it.
  [[nodiscard]] virtual cudnnStatus_t run(cudnnHandle_t handle,
                                          const operations::convolution_operands& operands,
                                          void* workspace) = 0;
};

/// The ways for one convolution, best first: plans of the graph with the epilogue, plans of the
/// convolution alone, cuDNN's calls with descriptors, and then our own kernel. There are no plans
/// unless `convolution_key::uses_graphs`. A call costs the processor several times as much as the
/// launch of a plan, but calls cover every geometry with equal padding, and cuDNN's list of engines
/// for all geometries takes 6 to 130 ms. Our kernel is slow and takes everything. A way is made
/// when it is asked for.
class convolution_ways {
 public:
  /// @param max_workspace the most scratch memory of a way, in bytes
  /// @param first the number of the plan or call that comes before the others of its kind, without
  /// the kinds before it; nothing: the order is cuDNN's
  convolution_ways(cudnnHandle_t handle, const operations::convolution_key& key,
                   std::size_t max_workspace, std::optional<std::uint32_t> first = {});

  /// The next way; null if there are no more.
  /// @throws error `unsupported`, `library_failure`
  [[nodiscard]] std::unique_ptr<convolution_way> next();
  /// The next plan of the graph of the last way; null if there are no more, or if that way is no
  /// plan.
  /// @throws error `library_failure`
  [[nodiscard]] std::unique_ptr<convolution_way> next_plan_of_graph();
  /// The number of the last way, if it is a plan or a call: its kind, and its place among those
  /// that are proposed. For ways in cuDNN's order.
  [[nodiscard]] std::optional<std::uint32_t> number() const noexcept;
  /// Leaves out plans with an epilogue from here on.
  void skip_fused_plans() noexcept { skip_to(stage::plain); }
  /// Leaves out plans from here on.
  void skip_plans() noexcept { skip_to(stage::calls); }

 private:
  enum class stage { fused, plain, calls, kernel, end };
  /// The ways of one kind that have a number.
  static constexpr std::uint32_t max_proposed = 1024;

  void skip_to(stage next) noexcept {
    if (stage_ >= next) return;
    stage_ = next;
    graph_.reset();
  }
  [[nodiscard]] static stage first_stage(const operations::convolution_key& key) noexcept;
  [[nodiscard]] std::unique_ptr<convolution_way> next_plan();
  [[nodiscard]] std::unique_ptr<convolution_way> next_call();
  /// Makes the graph of the stage and the list of its engines.
  void propose_engines();

  cudnnHandle_t handle_;
  operations::convolution_key key_;
  std::size_t max_workspace_;
  std::optional<std::uint32_t> first_;
  stage stage_;
  std::shared_ptr<const convolution_graph> graph_;  // of the stage, once there is one
  struct numbered_engine {
    graph_descriptor engine;
    std::uint32_t number;
  };
  std::vector<numbered_engine> engines_;  // for the graph, best last
  std::uint32_t engine_number_ = 0;       // of the last plan
  std::shared_ptr<cudnn_convolution> convolution_;
  std::vector<convolution_algorithm> algorithms_;  // of the calls, best last
  std::size_t algorithm_count_ = 0;                // with those that have been taken
};

}  // namespace sluice::cuda
