// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/cuda/convolution_ways.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <span>
#include <utility>

namespace sluice::cuda {
namespace {

using operations::conv2d_epilogue;
using operations::conv2d_key;

/// A plan of a graph.
class planned_convolution final : public convolution_way {
 public:
  planned_convolution(std::shared_ptr<const convolution_graph> graph, graph_plan plan) noexcept
      : graph_(std::move(graph)), plan_(std::move(plan)) {}
  std::size_t workspace_bytes() const noexcept override { return plan_.workspace_bytes(); }
  bool is_fused() const noexcept override { return graph_->epilogue() != conv2d_epilogue::none; }
  cudnnStatus_t run(cudnnHandle_t handle, const convolution_operands& operands,
                    void* workspace) override {
    const auto addresses = graph_->addresses(operands);
    const auto tensors = graph_->tensors();
    return plan_.run(handle, tensors, std::span(addresses).first(tensors.size()), workspace);
  }

 private:
  std::shared_ptr<const convolution_graph> graph_;
  graph_plan plan_;
};

/// A call with an algorithm.
class called_convolution final : public convolution_way {
 public:
  called_convolution(std::shared_ptr<cudnn_convolution> convolution,
                     const convolution_algorithm& algorithm) noexcept
      : convolution_(std::move(convolution)), algorithm_(algorithm) {}
  std::size_t workspace_bytes() const noexcept override { return algorithm_.workspace_bytes; }
  bool is_fused() const noexcept override { return false; }
  cudnnStatus_t run(cudnnHandle_t handle, const convolution_operands& operands,
                    void* workspace) override {
    return convolution_->run(handle, algorithm_, operands.x, operands.w, operands.y, workspace);
  }

 private:
  std::shared_ptr<cudnn_convolution> convolution_;  // of several algorithms
  convolution_algorithm algorithm_;
};

/// Moves the last element out of `list`.
template <class T>
T take_last(std::vector<T>& list) {
  T last = std::move(list.back());
  list.pop_back();
  return last;
}

/// Engines for graphs with an epilogue that use no tensor cores take ten times as long as the
/// convolution alone.
engine_requirements requirements_of(const conv2d_key& key, conv2d_epilogue epilogue) noexcept {
  return {.needs_tensor_cores = epilogue != conv2d_epilogue::none,
          .allows_winograd = key.type() == element_type::f32};
}

}  // namespace

convolution_ways::convolution_ways(cudnnHandle_t handle, const conv2d_key& key,
                                   std::size_t max_workspace)
    : handle_(handle), key_(key), max_workspace_(max_workspace), stage_(first_stage(key)) {}

convolution_ways::stage convolution_ways::first_stage(const conv2d_key& key) noexcept {
  // The engines are proposed in the order of their speed with tensor cores.
  if (!key.uses_tensor_cores()) return stage::calls;
  return key.epilogue != conv2d_epilogue::none ? stage::fused : stage::plain;
}

std::unique_ptr<convolution_way> convolution_ways::next() {
  if (auto way = next_plan()) return way;
  return next_call();
}

std::unique_ptr<convolution_way> convolution_ways::next_plan() {
  for (; stage_ != stage::calls; stage_ = static_cast<stage>(static_cast<int>(stage_) + 1)) {
    if (graph_ == nullptr) propose_engines();
    while (!engines_.empty()) {
      if (auto plan = graph_plan::make(handle_, take_last(engines_), max_workspace_)) {
        return std::make_unique<planned_convolution>(graph_, std::move(*plan));
      }
    }
    graph_.reset();
  }
  return nullptr;
}

void convolution_ways::propose_engines() {
  try {
    const auto epilogue = stage_ == stage::fused ? key_.epilogue : conv2d_epilogue::none;
    graph_ = std::make_shared<convolution_graph>(handle_, key_, epilogue);
    engines_ = proposed_engines(graph_->get(), requirements_of(key_, epilogue));
    std::reverse(engines_.begin(), engines_.end());
  } catch (const error& failure) {
    // A graph that cuDNN does not take has no plans.
    if (failure.code() != errc::unsupported && failure.code() != errc::library_failure) throw;
    engines_.clear();
  }
}

std::unique_ptr<convolution_way> convolution_ways::next_call() {
  if (convolution_ == nullptr) {
    convolution_ = std::make_shared<cudnn_convolution>(key_);
    algorithms_ = convolution_->algorithms(handle_, max_workspace_);
    std::reverse(algorithms_.begin(), algorithms_.end());
  }
  if (algorithms_.empty()) return nullptr;
  return std::make_unique<called_convolution>(convolution_, take_last(algorithms_));
}

}  // namespace sluice::cuda
