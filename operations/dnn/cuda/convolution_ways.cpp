// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/cuda/convolution_ways.hpp"

#include "operations/dnn/element_call.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

namespace sluice::cuda {
namespace {

using operations::convolution_epilogue;
using operations::convolution_key;
using operations::convolution_operands;

/// A plan of a graph.
class planned_convolution final : public convolution_way {
 public:
  planned_convolution(std::shared_ptr<const convolution_graph> graph, graph_plan plan) noexcept
      : graph_(std::move(graph)), plan_(std::move(plan)) {}
  std::size_t workspace_bytes() const noexcept override { return plan_.workspace_bytes(); }
  // A kernel for the convolution, and for each operand that is to lie in another order.
  std::size_t commands() const noexcept override { return 4; }
  bool is_fused() const noexcept override {
    return graph_->epilogue() != convolution_epilogue::none;
  }
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
  std::size_t commands() const noexcept override { return 16; }
  bool is_fused() const noexcept override { return false; }
  cudnnStatus_t run(cudnnHandle_t handle, const convolution_operands& operands,
                    void* workspace) override {
    return convolution_->run(handle, algorithm_, operands.x, operands.w, operands.y, workspace);
  }

 private:
  std::shared_ptr<cudnn_convolution> convolution_;  // of several algorithms
  convolution_algorithm algorithm_;
};

/// Our own kernel.
class direct_convolution final : public convolution_way {
 public:
  explicit direct_convolution(const convolution_key& key) noexcept
      : call_(operations::make_element_call(key)) {}
  std::size_t workspace_bytes() const noexcept override { return 0; }
  std::size_t commands() const noexcept override { return 1; }
  bool is_fused() const noexcept override { return false; }
  cudnnStatus_t run(cudnnHandle_t handle, const convolution_operands& operands, void*) override {
    cudaStream_t stream{};
    const auto status = cudnnGetStream(handle, &stream);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    const auto launched = operations::launch_elements(call_, operands.x, operands.w, operands.y,
                                                      reinterpret_cast<native_stream*>(stream));
    return launched == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
  }

 private:
  operations::element_call call_;
};

/// Whether cuDNN, which counts in `int`, takes the numbers of a convolution.
bool fits_cudnn(const convolution_key& key) noexcept {
  constexpr std::int64_t limit = std::numeric_limits<int>::max();
  const auto fit = [](const operations::spatial& values) {
    return *std::max_element(values.begin(), values.end()) <= limit;
  };
  return std::max({key.n, key.c, key.k, key.x_extent(), key.w_extent(), key.y_extent()}) <= limit &&
         fit(key.input) && fit(key.taps) && fit(key.output) && fit(key.before) && fit(key.after) &&
         fit(key.stride) && fit(key.dilation);
}

/// Moves the last element out of `list`.
template <class T>
T take_last(std::vector<T>& list) {
  T last = std::move(list.back());
  list.pop_back();
  return last;
}

/// Engines for graphs with an epilogue that use no tensor cores take ten times as long as the
/// convolution alone.
engine_requirements requirements_of(const convolution_key& key,
                                    convolution_epilogue epilogue) noexcept {
  return {.needs_tensor_cores = epilogue != convolution_epilogue::none,
          .allows_tensor_cores = key.uses_tensor_cores(),
          .allows_winograd = key.type() == element_type::f32};
}

}  // namespace

convolution_ways::convolution_ways(cudnnHandle_t handle, const convolution_key& key,
                                   std::size_t max_workspace, std::optional<std::uint32_t> first)
    : handle_(handle),
      key_(key),
      max_workspace_(max_workspace),
      first_(first),
      stage_(first_stage(key)) {
  const auto stage_of_first = first ? *first / max_proposed : 0;
  if (stage_of_first <= static_cast<std::uint32_t>(stage::calls)) skip_to(stage(stage_of_first));
}

convolution_ways::stage convolution_ways::first_stage(const convolution_key& key) noexcept {
  if (!key.has_padding() || !fits_cudnn(key)) return stage::kernel;
  // The engines are proposed in the order of their speed with tensor cores.
  if (!key.uses_graphs()) return stage::calls;
  return key.epilogue != convolution_epilogue::none ? stage::fused : stage::plain;
}

std::unique_ptr<convolution_way> convolution_ways::next() {
  if (stage_ < stage::calls) {
    if (auto way = next_plan()) return way;
  }
  if (stage_ == stage::calls) {
    if (auto way = next_call()) return way;
    stage_ = stage::kernel;
  }
  if (stage_ == stage::end) return nullptr;
  stage_ = stage::end;
  return std::make_unique<direct_convolution>(key_);
}

std::unique_ptr<convolution_way> convolution_ways::next_plan() {
  for (; stage_ != stage::calls; stage_ = static_cast<stage>(static_cast<int>(stage_) + 1)) {
    if (graph_ == nullptr) propose_engines();
    if (auto plan = next_plan_of_graph()) return plan;
    graph_.reset();
  }
  return nullptr;
}

std::unique_ptr<convolution_way> convolution_ways::next_plan_of_graph() {
  while (!engines_.empty()) {
    auto [engine, number] = take_last(engines_);
    if (auto plan = graph_plan::make(handle_, std::move(engine), max_workspace_)) {
      engine_number_ = number;
      return std::make_unique<planned_convolution>(graph_, std::move(*plan));
    }
  }
  return nullptr;
}

std::optional<std::uint32_t> convolution_ways::number() const noexcept {
  const auto begin = static_cast<std::uint32_t>(stage_) * max_proposed;
  if (stage_ < stage::calls && graph_ != nullptr) return begin + engine_number_;
  if (stage_ != stage::calls || algorithms_.size() == algorithm_count_) return std::nullopt;
  return begin + static_cast<std::uint32_t>(algorithm_count_ - algorithms_.size() - 1);
}

void convolution_ways::propose_engines() {
  try {
    const auto epilogue = stage_ == stage::fused ? key_.epilogue : convolution_epilogue::none;
    graph_ = std::make_shared<convolution_graph>(handle_, key_, epilogue);
    auto proposed = proposed_engines(graph_->get(), requirements_of(key_, epilogue));
    engines_.clear();
    for (auto& engine : proposed) {
      if (engines_.size() == max_proposed) break;
      engines_.push_back({std::move(engine), static_cast<std::uint32_t>(engines_.size())});
    }
    std::reverse(engines_.begin(), engines_.end());
    const auto first = std::find_if(engines_.begin(), engines_.end(), [&](const auto& each) {
      return first_ == static_cast<std::uint32_t>(stage_) * max_proposed + each.number;
    });
    if (first != engines_.end()) std::rotate(first, first + 1, engines_.end());
  } catch (const error& failure) {
    // A graph that cuDNN does not take has no plans.
    if (failure.code() != errc::unsupported && failure.code() != errc::library_failure) throw;
    engines_.clear();
  }
}

std::unique_ptr<convolution_way> convolution_ways::next_call() {
  if (!key_.is_symmetric()) return nullptr;
  if (convolution_ == nullptr) {
    try {
      convolution_ = std::make_shared<cudnn_convolution>(key_);
      algorithms_ = convolution_->algorithms(handle_, max_workspace_);
    } catch (const error& failure) {
      // Descriptors that cuDNN does not take have no algorithms.
      if (failure.code() != errc::unsupported && failure.code() != errc::library_failure) throw;
      algorithms_.clear();
    }
    std::reverse(algorithms_.begin(), algorithms_.end());
    algorithm_count_ = algorithms_.size();
    const auto first = first_.value_or(0);
    if (first / max_proposed == static_cast<std::uint32_t>(stage::calls) &&
        first % max_proposed < algorithm_count_) {
      const auto position = algorithms_.end() - 1 - first % max_proposed;
      std::rotate(position, position + 1, algorithms_.end());
    }
  }
  if (algorithms_.empty()) return nullptr;
  return std::make_unique<called_convolution>(convolution_, take_last(algorithms_));
}

}  // namespace sluice::cuda
