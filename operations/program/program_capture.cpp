// SPDX-License-Identifier: Apache-2.0
#include "operations/program/program_capture.hpp"

#include "operations/capture_scope.hpp"
#include "operations/cuda_build.hpp"
#include "operations/program/executable.hpp"
#include "operations/program/program_graph.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <utility>

namespace sluice::operations {
namespace {

// The launches of an executable before it is captured. The first ones also load kernels.
constexpr unsigned warmup_launches = 4;
// The attempts to capture it. One fails if other code synchronizes the device meanwhile.
constexpr unsigned max_attempts = 4;
// The launches of the graph that the driver may refuse.
constexpr unsigned max_refused_launches = 16;
// All memory of a graph, in bytes.
constexpr std::size_t max_graph_bytes = std::size_t{1} << 30U;
// With `capture_policy::automatic`:
// The launches of the graph that are timed.
constexpr unsigned timed_launches = 8;
// A program of fewer device commands gains nothing.
constexpr std::size_t min_commands = 3;
// The inputs and outputs of one launch, in bytes. The capture needs as much memory.
constexpr std::size_t max_staged_bytes = std::size_t{64} << 20U;
// The same, if the graph copies them.
constexpr std::size_t max_copied_bytes = std::size_t{1} << 20U;
// The scratch memory of the steps, which the captured programs of a lane have twice, in bytes.
constexpr std::size_t max_scratch_bytes = std::size_t{64} << 20U;

/// The size of the memory of a tensor, in bytes.
/// @throws error `unsupported` if that is not the size of its elements
std::size_t dense_bytes(const std::string& name, const tensor_spec& spec) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < spec.rank(); ++i) {
    if (spec.strides[i] < 0) last = -1;
    if (last >= 0) last += (spec.shape[i] - 1) * spec.strides[i];
  }
  const auto size = spec.size();
  if (size == 0) return 0;
  if (last < 0 || static_cast<std::size_t>(last) + 1 != size) {
    throw error(errc::unsupported, name + " has gaps or repeats elements");
  }
  return spec.bytes();
}

}  // namespace

program_capture::program_capture(std::shared_ptr<const detail::program_graph> graph,
                                 std::shared_ptr<const program_inference> inferred,
                                 capture_policy policy, device_kind kind)
    : state_(state::steps), program_(graph), inferred_(std::move(inferred)), policy_(policy) {
  if (kind != device_kind::cuda) {
    refusal_ = "the device has no graphs";
  } else if (policy_ == capture_policy::never) {
    refusal_ = "the program is not to be captured";
  } else if (!inferred_->varying.empty()) {
    refusal_ = "the runs give numbers";
  } else {
    for (std::size_t i = 0; i < graph->steps().size() && refusal_.empty(); ++i) {
      if (inferred_->steps[i].descriptor->can_be_captured()) continue;
      refusal_ = "step '" + graph->steps()[i].name + "' is of an operation that cannot be captured";
    }
  }
  if (refusal_.empty()) return;
  state_.store(state::never, std::memory_order_relaxed);
  inferred_.reset();
}

bool program_capture::may_be_captured(const executable& steps, std::size_t staged_bytes) noexcept {
  return steps.step_commands() >= min_commands && steps.scratch_bytes() <= max_scratch_bytes &&
         staged_bytes <= max_staged_bytes;
}

bool program_capture::wanted() noexcept {
  if (state_.load(std::memory_order_relaxed) != state::wanted) return false;
  state_.store(state::being_made, std::memory_order_relaxed);
  return true;
}

void program_capture::note_steps(duration time) noexcept {
  best_of_steps_ = std::min(best_of_steps_, time);
  if (++step_launches_ % warmup_launches != 0) return;
  auto first = state::steps;
  (void)state_.compare_exchange_strong(first, state::wanted, std::memory_order_relaxed);
}

void program_capture::note_refusal(const error& failure) noexcept {
  if (++refused_launches_ < max_refused_launches) return;
  try {
    refusal_ = failure.what();
  } catch (...) {
    // There is no memory for the reason.
  }
  state_.store(state::never, std::memory_order_release);
}

void program_capture::note_graph(duration time) noexcept {
  best_of_graph_ = std::min(best_of_graph_, time);
  if (++graph_launches_ < timed_launches) return;
  const bool faster = best_of_graph_ < best_of_steps_;
  state_.store(faster ? state::kept : state::never, std::memory_order_release);
}

void program_capture::make(lane_libraries& libraries) noexcept {
  if (state_.load(std::memory_order_relaxed) == state::never) return;
  try {
    if constexpr (has_cuda) {
      const auto graph = program_.lock();
      if (!graph) throw error(errc::unsupported, "the program is gone");
      libraries_ = cuda::capture_libraries(libraries);
      {
        const capture_scope scope(libraries.runtime().device());
        if (policy_ == capture_policy::automatic && !scope.is_separate()) {
          throw error(errc::unsupported,
                      "a capture would disturb other threads, because the driver or the CUDA "
                      "toolkit is older than 12.4");
        }
        auto steps = std::make_shared<executable>(*graph, *inferred_, *libraries_);
        steps->keep_form();
        steps_ = std::move(steps);
      }
      auto steps = describe(*graph);
      steps.enqueue = [&](std::span<void* const> externals, void* scratch, error_word* errors) {
        steps_->enqueue_steps(*libraries_, externals, scratch, nullptr, errors);
      };
      graph_ = cuda::capture(libraries, steps);
      const auto next = policy_ == capture_policy::at_prepare ? state::kept : state::made;
      state_.store(next, std::memory_order_release);
      return;
    }
  } catch (...) {
    try {
      const auto cause = current_error();
      if (cause.code() == errc::unsupported || ++attempts_ == max_attempts) refusal_ = cause.what();
    } catch (...) {
      attempts_ = max_attempts;  // there is no memory for the reason
    }
  }
  graph_.reset();
  steps_.reset();
  const bool is_over = !refusal_.empty() || attempts_ == max_attempts;
  state_.store(is_over ? state::never : state::steps, std::memory_order_release);
}

steps_to_capture program_capture::describe(const detail::program_graph& graph) const {
  const auto& inferred = *inferred_;
  steps_to_capture steps;
  steps.scratch_bytes = steps_->workspace_bytes();
  steps.finds_errors = detects_errors(inferred.errors, device_kind::cuda);
  std::size_t staged_bytes = 0;
  const auto stage = [&](std::size_t number, const std::string& name, const tensor_spec& spec,
                         bool is_written) {
    const auto bytes = dense_bytes(name, spec);
    staged_bytes += bytes;
    steps.staged_externals.push_back(
        {static_cast<std::uint32_t>(number), bytes, spec.alignment, is_written});
  };
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    steps.externals.push_back(nullptr);
    if (!inferred.uses[i].ignored) stage(i, graph.inputs()[i], inferred.inputs[i], false);
  }
  for (const auto& constant : graph.constants()) {
    steps.externals.push_back(constant.on_device.address());
  }
  for (const auto& memory : inferred.written) {
    if (memory.updates_input) throw error(errc::unsupported, "a step updates an input in place");
    stage(steps.externals.size(),
          memory.output ? graph.output_name(*memory.output) : graph.name_of_result(*memory.result),
          memory.spec, true);
    steps.externals.push_back(nullptr);
  }
  steps.apart = std::all_of(
      inferred.outputs.begin(), inferred.outputs.end(),
      [](const auto& output) { return !output.overlaps_input && output.same_as.empty(); });
  steps.max_copied_bytes =
      policy_ == capture_policy::automatic ? max_copied_bytes : max_graph_bytes;
  if (steps.scratch_bytes > max_graph_bytes || staged_bytes > max_graph_bytes) {
    throw error(errc::unsupported, "the graph would need too much memory");
  }
  if (policy_ == capture_policy::automatic) {
    if (steps_->commands() < min_commands) {
      throw error(errc::unsupported, "the program has too few steps");
    }
    if (staged_bytes > max_staged_bytes) {
      throw error(errc::unsupported, "the inputs and outputs are too large");
    }
    if (steps.scratch_bytes > max_scratch_bytes) {
      throw error(errc::unsupported, "the intermediate values are too large");
    }
  }
  return steps;
}

std::string program_capture::refusal() const {
  if (state_.load(std::memory_order_acquire) != state::never) return {};
  return refusal_.empty() ? "the graph is not faster" : refusal_;
}

std::size_t program_capture::shared_device_bytes() const noexcept {
  return has_plans() ? graph_->shared_device_bytes() : 0;
}

bool program_capture::has_plans() const noexcept {
  const auto current = state_.load(std::memory_order_acquire);
  return (current == state::made || current == state::kept || current == state::never) &&
         graph_ != nullptr;
}

}  // namespace sluice::operations
