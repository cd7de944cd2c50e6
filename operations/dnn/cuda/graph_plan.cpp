// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/cuda/graph_plan.hpp"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

namespace sluice::cuda {
namespace {

/// The numerical notes of an engine, or its notes of behaviour.
template <class Note, std::size_t Count>
class engine_notes {
 public:
  engine_notes(const graph_descriptor& engine, cudnnBackendAttributeName_t name)
      : count_(std::min(engine.get(name, std::span<Note>(notes_)), Count)) {}
  [[nodiscard]] bool contain(Note note) const noexcept {
    return std::find(notes_.begin(), notes_.begin() + count_, note) != notes_.begin() + count_;
  }

 private:
  std::array<Note, Count> notes_{};
  std::size_t count_;
};

bool is_accepted(const graph_descriptor& configuration, const engine_requirements& requirements) {
  const graph_descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  auto* handle = engine.get();
  (void)configuration.get_descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, {&handle, 1});
  const engine_notes<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> numerics(
      engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
  const engine_notes<cudnnBackendBehaviorNote_t, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT> behaviour(
      engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE);
  if (numerics.contain(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) ||
      numerics.contain(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) ||
      numerics.contain(CUDNN_NUMERICAL_NOTE_FFT) ||
      behaviour.contain(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION)) {
    return false;
  }
  const bool has_tensor_cores = numerics.contain(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  if (has_tensor_cores ? !requirements.allows_tensor_cores : requirements.needs_tensor_cores) {
    return false;
  }
  return requirements.allows_winograd ||
         !(numerics.contain(CUDNN_NUMERICAL_NOTE_WINOGRAD) ||
           numerics.contain(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4) ||
           numerics.contain(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6) ||
           numerics.contain(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13));
}

/// The descriptor of one run: the addresses of the tensors and the workspace.
class variant_pack {
 public:
  variant_pack() noexcept
      : status_(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &handle_)) {}
  variant_pack(const variant_pack&) = delete;
  variant_pack& operator=(const variant_pack&) = delete;
  ~variant_pack() {
    if (handle_ != nullptr) (void)cudnnBackendDestroyDescriptor(handle_);
  }
  /// Sets an attribute, unless an earlier call has failed.
  template <class T>
  void set(cudnnBackendAttributeName_t name, std::span<T> values) noexcept {
    if (status_ != CUDNN_STATUS_SUCCESS) return;
    status_ = cudnnBackendSetAttribute(handle_, name, graph_attribute_type<std::remove_const_t<T>>,
                                       static_cast<std::int64_t>(values.size()), values.data());
  }
  [[nodiscard]] cudnnStatus_t execute(cudnnHandle_t handle,
                                      cudnnBackendDescriptor_t plan) noexcept {
    if (status_ == CUDNN_STATUS_SUCCESS) status_ = cudnnBackendFinalize(handle_);
    if (status_ == CUDNN_STATUS_SUCCESS) status_ = cudnnBackendExecute(handle, plan, handle_);
    return status_;
  }

 private:
  cudnnBackendDescriptor_t handle_ = nullptr;
  cudnnStatus_t status_;
};

}  // namespace

std::vector<graph_descriptor> proposed_engines(const graph_descriptor& graph,
                                               const engine_requirements& requirements) {
  graph_descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A);
  if (cudnnBackendFinalize(heuristics.get()) != CUDNN_STATUS_SUCCESS) return {};
  const auto most = heuristics.get_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, {});
  std::vector<graph_descriptor> engines;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::size_t i = 0; i < most; ++i) {
    handles.push_back(engines.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  }
  const auto count =
      most == 0 ? 0 : heuristics.get_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, handles);
  engines.erase(engines.begin() + static_cast<std::ptrdiff_t>(std::min(count, most)),
                engines.end());
  std::erase_if(engines, [&](const graph_descriptor& e) { return !is_accepted(e, requirements); });
  return engines;
}

graph_plan::graph_plan(graph_descriptor engine, graph_descriptor plan,
                       std::size_t workspace_bytes) noexcept
    : engine_(std::move(engine)), plan_(std::move(plan)), workspace_bytes_(workspace_bytes) {}

std::optional<graph_plan> graph_plan::make(cudnnHandle_t handle, graph_descriptor engine,
                                           std::size_t max_workspace) {
  graph_descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine);
  if (cudnnBackendFinalize(plan.get()) != CUDNN_STATUS_SUCCESS) return std::nullopt;
  std::int64_t bytes = 0;
  (void)plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, std::span(&bytes, 1));
  if (bytes < 0 || static_cast<std::size_t>(bytes) > max_workspace) return std::nullopt;
  return graph_plan(std::move(engine), std::move(plan), static_cast<std::size_t>(bytes));
}

cudnnStatus_t graph_plan::run(cudnnHandle_t handle, std::span<const std::int64_t> tensors,
                              std::span<void* const> addresses, void* workspace) const noexcept {
  variant_pack pack;
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, tensors);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, addresses);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, std::span(&workspace, 1));
  return pack.execute(handle, plan_.get());
}

}  // namespace sluice::cuda
