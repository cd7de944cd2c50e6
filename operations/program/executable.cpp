// SPDX-License-Identifier: Apache-2.0
#include "operations/program/executable.hpp"

#include "envelope/seam.hpp"
#include "operations/capture_scope.hpp"
#include "operations/cuda_build.hpp"
#include "operations/parts_of_launch.hpp"
#include "operations/program/epilogues.hpp"
#include "operations/program/executable_builder.hpp"
#include "operations/program/program_graph.hpp"
#include "operations/program/program_launch.hpp"
#include "runtime/seam.hpp"

#include <sluice/envelope/kernel_envelope.hpp>
#include <sluice/runtime/host_task.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace sluice::operations {

using detail::program_graph;

namespace {

bool has_gpu(const lane_libraries& libraries) noexcept {
  return libraries.runtime().device().id().kind != device_kind::host;
}

/// The names of the steps of a program and of their operands.
class step_names final : public detail::error_names {
 public:
  step_names(const program_graph& graph, const program_inference& inferred) {
    for (std::size_t i = 0; i < graph.steps().size(); ++i) {
      steps_.push_back({"step '" + graph.steps()[i].name + "': ", inferred.steps[i].descriptor});
    }
  }
  std::string name(std::uint32_t step, std::uint32_t operand) const override {
    const auto& [label, descriptor] = steps_.at(step);
    return label + std::string(descriptor->operand_name(operand));
  }

 private:
  std::vector<std::pair<std::string, const operation_descriptor*>> steps_;
};

}  // namespace

/// The parts of an executable while it is made.
struct executable::construction {
  const program_graph& graph;
  const program_inference& inferred;
  lane_libraries& libraries;
  folding folded{};
  fusion epilogues{graph};
  fusion groups{graph};
  kept_plans* kept = nullptr;
  plans_by_key plans{};
  std::vector<std::unique_ptr<builder>> builders{};  // they refer to the others
};

executable::executable(const program_graph& graph, const program_inference& inferred,
                       lane_libraries& libraries, kept_plans* kept)
    : fuses_(graph.fuses()), on_host_(!has_gpu(libraries)) {
  const auto kind = libraries.runtime().device().id().kind;
  construction parts{.graph = graph, .inferred = inferred, .libraries = libraries};
  parts.kept = kept;
  constants_ = graph.find_constants(libraries.runtime());
  if (constants_) {
    build(parts, constants_->folded());
  } else {
    // Nothing may run in a capture.
    build(parts, capture_scope::is_open() ? unfolded(graph) : fold(graph, inferred, kind));
    if (graph.host_constants_bytes() != 0) {
      upload_constants(graph, inferred, parts.folded, libraries);
    }
    if (constants_ && constants_->folded().steps.size() != parts.folded.steps.size()) {
      build(parts, constants_->folded());
      // Plans of the first attempt may belong to no action any more.
      parts.plans.clear();
      std::erase_if(plans_, [](const auto& plan) { return plan.use_count() == 1; });
    }
  }
  copy_constants(inferred, libraries);
  for (const auto& each : parts.builders) each->settle_places();
  if (inferred.errors != error_detection::none) {
    names_of_errors_ = std::make_shared<const step_names>(graph, inferred);
  }
  const bool has_kernels = !on_host_ && steps_in_groups_ != steps_in_epilogues_;
  if (!has_kernels) return;
  kernels_state_ = kernels_state::awaited;
  if (wants_kernels()) load_kernels(libraries);
}

void executable::build(construction& parts, const folding& folded) {
  const auto& graph = parts.graph;
  const auto& inferred = parts.inferred;
  auto& libraries = parts.libraries;
  const auto kind = libraries.runtime().device().id().kind;
  parts.builders.clear();
  steps_ = form();
  fused_ = form();
  parts.folded = folded;
  parts.epilogues = fuses_ ? fuse_epilogues(graph, inferred, parts.folded, kind) : fusion(graph);
  parts.groups =
      fuses_ ? fuse_maps(graph, inferred, parts.folded, kind, parts.epilogues) : parts.epilogues;
  steps_in_epilogues_ = parts.epilogues.steps();
  steps_in_groups_ = parts.groups.steps();
  const auto add = [&](form& target, const fusion& groups) {
    parts.builders.push_back(std::make_unique<builder>(*this, target, graph, inferred, parts.folded,
                                                       groups, parts.plans, libraries, parts.kept));
    parts.builders.back()->add_steps();
  };
  add(steps_, on_host_ ? parts.groups : parts.epilogues);
  if (!on_host_ && steps_in_groups_ != steps_in_epilogues_) add(fused_, parts.groups);
}

executable::executable(const std::shared_ptr<const program_graph>& graph,
                       const std::shared_ptr<const program_inference>& inferred,
                       lane_libraries& libraries)
    : executable(*graph, *inferred, libraries) {
  graph_ = graph;
  allow_capture(graph, inferred, graph->capture(), libraries.runtime().device().id().kind);
  if (graph->capture() == capture_policy::at_prepare) capture_->make(libraries);
  // A GPU pads the runs of a batch if it can. Runs that are stacked have no word for each of them.
  const bool finds_errors =
      detects_errors(inferred->errors, libraries.runtime().device().id().kind);
  if (!inferred->stacks || (!on_host_ && (inferred->padded || finds_errors))) return;
  stacked_ = std::make_unique<stacked_executables>(
      graph, std::make_shared<const batch_layout>(layout_of(*graph, inferred)), *this);
}

executable::executable(const std::shared_ptr<const program_graph>& graph,
                       const std::shared_ptr<const batch_layout>& layout, lane_libraries& libraries)
    : executable(*graph, *layout->full_run, libraries) {
  graph_ = graph;
  stacked_ = std::make_unique<stacked_executables>(graph, layout, *this);
  stacked_->add_one(*graph, libraries);
  pads_ = true;
}

void executable::allow_capture(const std::shared_ptr<const program_graph>& graph,
                               const std::shared_ptr<const program_inference>& inferred,
                               capture_policy policy, device_kind kind) {
  capture_ = std::make_unique<program_capture>(graph, inferred, policy, kind);
  if (capture_->refusal().empty()) copies_of_graph_ = inferred->uses.size();
}

bool executable::wants_capture() const noexcept {
  if (awaits_capture() || (stacked_ && stacked_->awaits_capture())) return false;
  return (capture_ && capture_->wanted()) || (stacked_ && stacked_->wants_capture());
}

void executable::make_capture(lane_libraries& libraries) const noexcept {
  if (awaits_capture()) capture_->make(libraries);
  if (stacked_) stacked_->make_capture(libraries);
}

std::size_t executable::form::bytes() const noexcept {
  std::size_t sum = 0;
  for (const auto& a : actions) {
    sum += sizeof(a) + a.label.capacity() +
           a.operands.size() * (sizeof(place) + sizeof(element_type)) +
           (a.fused ? a.fused->host_bytes() : 0) + (a.kernel ? a.kernel->bytes() : 0);
  }
  return sum;
}

std::size_t executable::bytes() const noexcept {
  std::size_t sum = sizeof(*this);
  sum += steps_.bytes() + fused_.bytes();
  for (const auto& plan : plans_) sum += plan->bytes();
  return sum * sets() + (capture_ ? capture_->bytes() : 0) + (stacked_ ? stacked_->bytes() : 0);
}

std::size_t executable::device_bytes() const noexcept {
  std::size_t sum = 0;
  for (const auto& plan : plans_) sum += plan->device_bytes();
  return sum * sets() + (stacked_ ? stacked_->device_bytes() : 0);
}

std::size_t executable::shared_device_bytes() const noexcept {
  const auto owners = static_cast<std::size_t>(constants_.use_count());  // 0 without constants
  const auto share = owners == 0 ? 0 : (constants_->share() + owners - 1) / owners;
  const auto shares = capture_ && capture_->has_plans() ? 2 : 1;
  return shares * (share + copied_bytes()) + (capture_ ? capture_->shared_device_bytes() : 0) +
         (stacked_ ? stacked_->shared_device_bytes() : 0);
}

std::size_t executable::batch_workspace_bytes() const noexcept {
  return stacked_ ? std::max(stacked_->workspace_bytes(), workspace_bytes()) : workspace_bytes();
}

std::size_t executable::batch_commands(std::size_t count) const noexcept {
  if (on_host_) return count;  // a task for each
  return stacked_ ? stacked_->commands(count) : count * commands();
}

void* executable::address(const place& location, std::span<void* const> externals,
                          void* scratch) const noexcept {
  void* base = nullptr;
  switch (location.memory) {
    case place::kind::nowhere:
      return nullptr;
    case place::kind::external:
      base = externals[location.number];
      break;
    case place::kind::scratch:
      base = scratch;
      break;
    case place::kind::constant:
      base = constants_ ? constants_->address(location.number) : nullptr;  // all may be empty
      break;
    case place::kind::constant_copy:
      base = copies_[location.number]->address();
      break;
  }
  return base == nullptr ? nullptr : static_cast<std::byte*>(base) + location.offset;
}

template <class Launch>
void executable::for_each(const form& steps, std::span<void* const> externals, void* scratch,
                          const program_launch* run_data, error_word* errors,
                          const Launch& launch) const {
  for (const auto& entry : steps.actions) {
    std::array<void*, max_operands> addresses;  // as many as there are operands
    std::transform(entry.operands.begin(), entry.operands.end(), addresses.begin(),
                   [&](const place& location) { return address(location, externals, scratch); });
    launch(entry, entry.varying ? run_data->calls[*entry.varying].call : entry.call,
           launch_memory{.addresses = std::span(addresses).first(entry.operands.size()),
                         .types = entry.types,
                         .plan = entry.plan.get(),
                         .workspace = address(entry.workspace, externals, scratch),
                         .errors = errors,
                         .step = entry.step,
                         .prepacked = entry.prepacked});
  }
}

void executable::enqueue(lane_libraries& libraries, std::span<void* const> externals, void* scratch,
                         program_launch* run_data) const {
  parts_of_launch parts;
  if (run_data != nullptr && !run_data->uploads.empty()) {
    parts.enqueue([&] { run_data->enqueue_before_batch(externals); });
  }
  parts.enqueue([&] {
    if (pads_) {
      operation_launch* const alone = run_data;
      return stacked_->enqueue(libraries, {externals, std::span(&alone, 1)}, scratch);
    }
    auto* const errors = run_data != nullptr ? run_data->errors : nullptr;
    const auto all_steps = [&] {
      enqueue_steps(libraries, externals, scratch, run_data, errors);
    };
    if (!capture_) return all_steps();
    capture_->launch(libraries.stream(), externals, errors, all_steps);
  });
  if (run_data != nullptr && !run_data->downloads.empty()) {
    parts.enqueue([&] { run_data->enqueue_after_batch(externals); });
  }
}

void executable::enqueue_steps(lane_libraries& libraries, std::span<void* const> externals,
                               void* scratch, program_launch* run_data, error_word* errors) const {
  if (!has_gpu(libraries)) {
    try {
      // The launch owns this executable and `run_data`.
      return submit_host_task(
          libraries.stream(), [this, scratch, run_data, errors,
                               all_externals = std::vector(externals.begin(), externals.end())] {
            host::mark_time();  // the first step begins
            for_each(steps_, all_externals, scratch, run_data, errors,
                     [](const action& a, const auto& call, const launch_memory& memory) {
                       for (auto i = a.steps_without_action; i > 0; --i) host::mark_time();
                       naming([&] { return a.label; },
                              [&] {
                                a.fused ? host::compute_fused(*a.fused, memory.addresses)
                                        : a.descriptor->compute(call, memory);
                              });
                       if (a.ends_step) host::mark_time();
                     });
          });
    } catch (...) {
      throw nothing_enqueued(current_error());
    }
  }
  const bool has_kernels = kernels_state_.load(std::memory_order_acquire) == kernels_state::loaded;
  parts_of_launch parts;
  for_each(has_kernels ? fused_ : steps_, externals, scratch, run_data, errors,
           [&](const action& a, const auto& call, const launch_memory& memory) {
             parts.enqueue([&] {
               const detail::nvtx_range range(a.label.c_str());
               naming([&] { return a.label; },
                      [&] {
                        a.kernel ? a.kernel->enqueue(libraries, memory.addresses, memory.workspace)
                                 : a.descriptor->enqueue(libraries, call, memory);
                      });
             });
           });
}

}  // namespace sluice::operations
