// SPDX-License-Identifier: Apache-2.0
#include "operations/program/executable.hpp"

#include "envelope/seam.hpp"
#include "operations/cuda_build.hpp"
#include "operations/parts_of_launch.hpp"
#include "operations/program/epilogues.hpp"
#include "operations/program/program_graph.hpp"
#include "operations/program/scratch_layout.hpp"
#include "runtime/seam.hpp"

#include <sluice/envelope/kernel_envelope.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/runtime/host_task.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace sluice::operations {

using detail::program_graph;
using located = program_inference::located;

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

/// Turns the inferred steps into actions.
class executable::builder {
 public:
  using plans_by_key = std::map<std::pair<const operation_descriptor*, std::string>,
                                std::shared_ptr<const operation_plan>>;

  builder(executable& owner, form& target, const program_graph& graph,
          const program_inference& inferred, const folding& folded, const fusion& groups,
          plans_by_key& plans, lane_libraries& libraries)
      : owner_(owner),
        target_(target),
        graph_(graph),
        inferred_(inferred),
        folded_(folded),
        groups_(groups),
        plans_(plans),
        libraries_(libraries) {
    for (std::uint32_t i = 0; i < inferred.written.size(); ++i) {
      if (inferred.written[i].result) written_memory_[*inferred.written[i].result] = i;
    }
    for (std::size_t root = 0; root < source_count_ + graph.results().size(); ++root) {
      roots_.push_back({place::kind::external, static_cast<std::uint32_t>(root), 0});
      if (root < source_count_) {
        const auto input = root < graph.inputs().size();
        const auto* const constant =
            input ? nullptr : &graph.constants()[root - graph.inputs().size()];
        if (constant != nullptr && constant->on_host) {
          roots_.back() = {place::kind::constant, 0, constant->offset};
        }
        continue;
      }
      const auto result = root - source_count_;
      if (const auto offset = folded.offset_of(graph.results()[result].step)) {
        roots_.back() = {place::kind::constant, 0, *offset};
        continue;
      }
      const auto memory = written_memory_[result];
      roots_.back() = memory == program_graph::none ? place() : external(memory);
    }
  }

  void add_steps() {
    for (std::uint32_t i = 0; i < graph_.steps().size(); ++i) {
      const auto number = groups_.group_of_step[i];
      const auto* const group = number == fusion::none ? nullptr : &groups_.groups[number];
      if (folded_.offset_of(i) || (group != nullptr && group->steps.back() != i)) {
        ++steps_without_action_;
        continue;
      }
      const auto first = target_.actions.size();
      step_ = i;
      label_ = group != nullptr ? label_of(*group) : "step '" + graph_.steps()[i].name + "'";
      naming([&] { return label_; },
             [&] {
               const auto& step = graph_.steps()[i];
               if (group == nullptr) return add_step(inferred_.steps[i], step.operands, step, step);
               group->map ? add_map(*group) : add_operation(*group);
             });
      target_.actions[first].steps_without_action = std::exchange(steps_without_action_, 0);
      target_.actions.back().ends_step = true;
    }
    for (std::size_t i = 0; i < inferred_.written.size(); ++i) {
      const auto& w = inferred_.written[i];
      if (w.result) continue;
      const auto& value = inferred_.values[graph_.outputs()[*w.output]];
      label_ = graph_.output_name(*w.output);
      naming([&] { return label_; },
             [&] { add_copy(place_of(value), value.spec(), external(i), w.spec); });
    }
    lay_out_scratch();
  }

  /// Leaves out the packing of constants of which the planner has made copies. Then no place
  /// changes any more.
  void settle_places() {
    target_.erase_left_out();
    lay_out_scratch();
    for (auto& entry : target_.actions) {
      for (auto& location : entry.operands) settle(location);
      settle(entry.workspace);
      entry.packings = std::vector<constant_packing>();
    }
  }

 private:
  void lay_out_scratch() {
    // A value that several steps use is needed until the last of them.
    const auto count = target_.actions.size();
    for (auto& buffer : buffers_) {
      buffer.first = count;
      buffer.last = 0;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const auto& entry = target_.actions[i];
      for (const auto& location : entry.operands) keep(location, i);
      keep(entry.workspace, i);
    }
    for (auto& buffer : buffers_) {
      if (buffer.first == count) buffer.bytes = 0;  // nothing is left that uses it
    }
    target_.scratch_bytes = lay_out(buffers_);
  }
  /// Memory that the launch writes; see `program_inference::written`.
  [[nodiscard]] place external(std::size_t number) const {
    return {place::kind::external,
            static_cast<std::uint32_t>(graph_.inputs().size() + graph_.constants().size() + number),
            0};
  }
  [[nodiscard]] place new_buffer(std::size_t bytes) {
    // Not `out_of_memory`: it does not help to plan again.
    if (bytes > memory_) {
      throw error(errc::unsupported, "an intermediate value, a packed copy or a workspace takes " +
                                         std::to_string(bytes) + " bytes, but the device has " +
                                         std::to_string(memory_) + " bytes of memory");
    }
    buffers_.push_back({.bytes = bytes});
    return {place::kind::scratch, static_cast<std::uint32_t>(buffers_.size() - 1), 0};
  }
  void keep(const place& location, std::size_t number) {
    if (location.memory != place::kind::scratch) return;
    auto& buffer = buffers_[location.number];
    buffer.first = std::min(buffer.first, number);
    buffer.last = std::max(buffer.last, number);
  }
  void settle(place& location) {
    if (location.memory == place::kind::scratch)
      location.offset += buffers_[location.number].offset;
  }
  [[nodiscard]] place place_of(const located& value) {
    auto result = roots_[value.root];
    result.offset += value.layout.offset();
    return result;
  }

  void add_copy(const place& source, const tensor_spec& source_spec, const place& target,
                const tensor_spec& target_spec) {
    strided_copy copy;
    const std::array specs{std::optional(source_spec), std::optional(target_spec)};
    const auto operands = detail::operands_of(copy);
    inference_for<strided_copy> inferred(operands, specs);
    const auto& descriptor = descriptor_of(operation_type<strided_copy>{});
    action new_action;
    new_action.descriptor = &descriptor;
    new_action.operands = {source, target};
    new_action.types = {source_spec.type, target_spec.type};
    descriptor.infer(&copy, inferred, new_action.call);
    add(std::move(new_action));
  }
  [[nodiscard]] std::string label_of(const fused_group& group) const {
    std::string label = "steps ";
    for (std::size_t i = 0; i < group.steps.size(); ++i) {
      if (i != 0) label += i + 1 == group.steps.size() ? " and " : ", ";
      label += "'" + graph_.steps()[group.steps[i]].name + "'";
    }
    return label;
  }
  /// Adds the steps of a group as one action.
  ///@{
  void add_operation(const fused_group& group) {
    add_step(group.operation, group.operands, graph_.steps()[group.steps.front()],
             graph_.steps()[group.steps.back()]);
  }
  void add_map(const fused_group& group) {
    const auto& result = graph_.results()[graph_.steps()[group.steps.back()].first_result];
    place_result(result);
    action new_action;
    new_action.label = label_;
    new_action.fused = group.map;
    if constexpr (has_cuda) {
      if (!owner_.on_host_) new_action.kernel = cuda::kernel_of(libraries_, group.map);
    }
    const auto add_operand = [&](std::uint32_t number) {
      const auto& value = inferred_.values[number];
      new_action.operands.push_back(place_of(value));
      new_action.types.push_back(value.layout.type());
    };
    add_operand(result.value);
    for (const auto input : group.operands) add_operand(input);
    const auto workspace = owner_.on_host_ ? 0 : group.map->workspace_bytes();
    if (workspace != 0) new_action.workspace = new_buffer(workspace);
    target_.commands += owner_.on_host_ ? 1 : group.map->commands();
    target_.actions.push_back(std::move(new_action));
  }
  ///@}
  void add(action new_action) {
    const auto kind = libraries_.runtime().device().id().kind;
    new_action.label = label_;
    new_action.step = step_;
    new_action.descriptor->prepare(libraries_);
    if (new_action.descriptor->makes_plans(kind)) {
      const auto bytes = new_action.descriptor->key(kind, new_action.call);
      auto& plan = plans_[{new_action.descriptor,
                           std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())}];
      if (!plan) {
        plan = new_action.descriptor->make_plan(libraries_, new_action.call);
        if (!plan) throw error(errc::library_failure, "no plan was made");
        owner_.plans_.push_back(plan);
      }
      new_action.plan = plan;
      if (plan->workspace_bytes() != 0) new_action.workspace = new_buffer(plan->workspace_bytes());
      target_.commands += plan->commands();
    }
    target_.commands += new_action.descriptor->facts(new_action.call).commands;
    target_.actions.push_back(std::move(new_action));
  }
  /// The properties of a value that is repeated to `shape`.
  [[nodiscard]] static tensor_spec repeated(const tensor_spec& s, const extents& shape) {
    const auto layout = tensor_layout(s.type, s.shape, s.strides).broadcast_to(shape);
    return {s.type, layout.shape(), layout.strides(), s.alignment};
  }

  /// States the elements of a packed copy and their order; see `constant_copy_key`.
  [[nodiscard]] static std::string order_of(const tensor_spec& source, const tensor_spec& copy) {
    return std::string(to_string(source.type)) + ' ' + to_string(source.shape) + ' ' +
           to_string(source.strides) + ' ' + to_string(copy.strides);
  }

  /// Whether a step that updates an operand in `result` may do so in its memory: the operand is a
  /// whole intermediate value that nothing else needs.
  [[nodiscard]] bool can_take_over(const program_graph::step_result& result) const {
    const auto& step = graph_.steps()[result.step];
    const auto updated = step.operands[result.operand];
    if (updated == program_graph::none) return false;
    const auto& value = inferred_.values[updated];
    const auto& new_value = inferred_.values[result.value];
    if (roots_[value.root].memory != place::kind::scratch || value.layout.offset() != 0 ||
        value.layout.strides() != new_value.layout.strides() ||
        value.layout.type() != new_value.layout.type()) {
      return false;
    }
    // Outputs that are copied at the end need their values until then.
    const auto viewed = graph_.viewed(updated);
    const auto& use = graph_.use_of(viewed);
    if (groups_.last_read[viewed] > result.step + 1 || use.outputs != 0) return false;
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      const auto other = step.operands[i];
      if (i == result.operand || other == program_graph::none) continue;
      if (graph_.viewed(other) == viewed) return false;
    }
    return true;
  }

  /// Finds memory for a result, and copies there what the step updates.
  void place_result(const program_graph::step_result& result) {
    const auto& value = inferred_.values[result.value];
    const auto& use = inferred_.steps[result.step].uses[result.operand];
    const auto updated = graph_.steps()[result.step].operands[result.operand];
    auto& root = roots_[value.root];
    if (root.memory == place::kind::nowhere) {
      if (can_take_over(result)) {
        root = roots_[inferred_.values[updated].root];
        return;
      }
      root = new_buffer(value.spec().bytes());
    }
    if (updated == program_graph::none || use.access == access_kind::write) return;
    const auto memory = written_memory_[value.root - source_count_];
    if (memory != program_graph::none && inferred_.written[memory].updates_input) return;
    const auto& value_before = inferred_.values[updated];
    add_copy(place_of(value_before), value_before.spec(), root, value.spec());
  }

  /// Adds the operation of `step`, with the results of the step `last`: `step` itself, or the last
  /// one of its epilogue.
  void add_step(const program_inference::step& inferred, const std::vector<std::uint32_t>& operands,
                const program_graph::step& step, const program_graph::step& last) {
    for (std::size_t i = 0; i < last.outputs.size(); ++i) {
      const auto& result = graph_.results()[last.first_result + i];
      if (inferred_.values[result.value].root != located::nowhere) place_result(result);
    }
    action new_action;
    new_action.descriptor = inferred.descriptor;
    new_action.call = inferred.call;
    // They have the order of the steps.
    if (next_varying_ < inferred_.varying.size() &&
        inferred_.varying[next_varying_].number == step_) {
      new_action.varying = next_varying_++;
    }
    struct packed_copy {
      place source;
      tensor_spec source_spec;
      place target;
      tensor_spec target_spec;
    };
    std::vector<packed_copy> written_back;
    for (std::size_t i = 0; i < inferred.uses.size(); ++i) {
      const auto& u = inferred.uses[i];
      auto& operand = new_action.operands.emplace_back();
      auto& type = new_action.types.emplace_back();
      const auto result = step.result_at(i);
      const auto number_of_value =
          result ? graph_.results()[last.first_result + *result - step.first_result].value
                 : operands[i];
      if (u.ignored || number_of_value == program_graph::none) continue;
      const auto& value = inferred_.values[number_of_value];
      if (value.root == located::nowhere) continue;
      const auto value_place = place_of(value);
      const auto value_spec = value.spec();
      operand = value_place;
      type = value_spec.type;
      if (!u.packed || u.spec->size() == 0) continue;
      operand = new_buffer(u.spec->bytes());
      if (u.access != access_kind::write) {
        const auto source_spec = repeated(value_spec, u.spec->shape);
        add_copy(value_place, source_spec, operand, *u.spec);
        // A copy that repeats elements may be much larger than the constant.
        if (value_place.memory == place::kind::constant && u.access == access_kind::read &&
            !source_spec.repeats_elements()) {
          new_action.packings.push_back(
              {i, target_.actions.size() - 1, u.spec->bytes(), order_of(source_spec, *u.spec)});
        }
      }
      if (u.access != access_kind::read) {
        written_back.push_back({operand, *u.spec, value_place, value_spec});
      }
    }
    add(std::move(new_action));
    for (const auto& copy : written_back) {
      add_copy(copy.source, copy.source_spec, copy.target, copy.target_spec);
    }
  }

  executable& owner_;
  form& target_;
  const program_graph& graph_;
  const program_inference& inferred_;
  const folding& folded_;
  const fusion& groups_;
  plans_by_key& plans_;
  lane_libraries& libraries_;
  const std::size_t memory_ = libraries_.runtime().device().info().memory_bytes;
  std::string label_;  // the step or the output that is being added
  std::uint32_t step_ = 0;
  std::vector<place> roots_;
  const std::size_t source_count_ = graph_.inputs().size() + graph_.constants().size();
  // By result: the number of the memory that it is written to, among those of
  // `program_inference::written`.
  std::vector<std::uint32_t> written_memory_ =
      std::vector<std::uint32_t>(graph_.results().size(), program_graph::none);
  std::uint32_t next_varying_ = 0;
  std::uint32_t steps_without_action_ = 0;
  std::vector<scratch_buffer> buffers_;
};

executable::executable(const program_graph& graph, const program_inference& inferred,
                       lane_libraries& libraries)
    : fuses_(graph.fuses()), on_host_(!has_gpu(libraries)) {
  const auto kind = libraries.runtime().device().id().kind;
  const auto folded = fold(graph, inferred, kind);
  const auto epilogues = fuses_ ? fuse_epilogues(graph, inferred, folded, kind) : fusion(graph);
  const auto groups = fuses_ ? fuse_maps(graph, inferred, folded, kind, epilogues) : epilogues;
  steps_in_epilogues_ = epilogues.steps();
  steps_in_groups_ = groups.steps();
  constants_ = graph.constants_on(libraries, inferred, folded);
  builder::plans_by_key plans;
  std::vector<std::unique_ptr<builder>> builders;
  const auto build = [&](form& target, const fusion& grouping) {
    builders.push_back(std::make_unique<builder>(*this, target, graph, inferred, folded, grouping,
                                                 plans, libraries));
    builders.back()->add_steps();
  };
  build(steps_, on_host_ ? groups : epilogues);
  const bool has_kernels = !on_host_ && steps_in_groups_ != steps_in_epilogues_;
  if (has_kernels) build(fused_, groups);
  copy_constants(inferred, libraries);
  for (const auto& each : builders) each->settle_places();
  if (inferred.errors != error_detection::none) {
    names_of_errors_ = std::make_shared<const step_names>(graph, inferred);
  }
  if (!has_kernels) return;
  kernels_state_ = kernels_state::awaited;
  if (wants_kernels()) load_kernels(libraries);
}

executable::executable(const std::shared_ptr<const program_graph>& graph,
                       const std::shared_ptr<const program_inference>& inferred,
                       lane_libraries& libraries)
    : executable(*graph, *inferred, libraries) {
  graph_ = graph;
  capture_ =
      std::make_unique<program_capture>(graph, inferred, libraries.runtime().device().id().kind);
  if (capture_->refusal().empty()) copies_of_graph_ = inferred->uses.size();
  if (graph->capture() == capture_policy::at_prepare) capture_->make(libraries);
  // A GPU pads the runs of a batch if it can. Runs that are stacked have no word for each of them.
  const bool finds_errors =
      detects_errors(inferred->errors, libraries.runtime().device().id().kind);
  if (!inferred->stacks || (!on_host_ && (inferred->padded || finds_errors))) return;
  stacked_ = std::make_unique<stacked_executables>(
      std::make_shared<const batch_layout>(layout_of(*graph, inferred)), *this);
}

executable::executable(const std::shared_ptr<const program_graph>& graph,
                       const std::shared_ptr<const batch_layout>& layout, lane_libraries& libraries)
    : executable(*graph, *layout->full_run, libraries) {
  graph_ = graph;
  stacked_ = std::make_unique<stacked_executables>(layout, *this);
  stacked_->add_one(*graph, libraries);
  pads_ = true;
}

void executable::add_batches(lane_libraries& libraries, const plan_limits& limits) const noexcept {
  const auto graph = graph_.lock();
  if (stacked_ && !on_host_ && graph) stacked_->add(*graph, libraries, limits);
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
  const auto share = owners == 0 ? 0 : (constants_->bytes() + owners - 1) / owners;
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
      base = constants_ ? constants_->address() : nullptr;  // all of them may be empty
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
    capture_->launch(libraries.stream(), externals, errors,
                     [&] { enqueue_steps(libraries, externals, scratch, run_data, errors); });
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

void program_launch::enqueue_before_batch(std::span<void* const> externals) {
  parts_of_launch parts;
  for (const auto& t : uploads) {
    parts.enqueue([&] { t.copy->enqueue(externals[t.external]); });
  }
}

void program_launch::enqueue_after_batch(std::span<void* const> externals) {
  parts_of_launch parts;
  for (const auto& t : downloads) {
    auto* const address = static_cast<std::byte*>(externals[t.external]) + t.offset;
    parts.enqueue([&] { t.copy->enqueue(address); });
  }
}

std::size_t program_launch::commands() const noexcept {
  std::size_t sum = 0;
  for (const auto& t : uploads) sum += t.copy->commands();
  for (const auto& t : downloads) sum += t.copy->commands();
  return sum;
}

void program_launch::finish() noexcept {
  for (const auto& t : downloads) t.copy->finish();
  downloads.clear();  // the client that has its answer shares its memory with nobody
}

}  // namespace sluice::operations
