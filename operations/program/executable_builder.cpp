// SPDX-License-Identifier: Apache-2.0
#include "operations/program/executable_builder.hpp"

#include "envelope/seam.hpp"
#include "operations/cuda_build.hpp"
#include "runtime/seam.hpp"

#include <sluice/operations/elementwise.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace sluice::operations {

using detail::program_graph;

namespace {

/// The properties of a value that is repeated to `shape`.
tensor_spec repeated(const tensor_spec& s, const extents& shape) {
  const auto layout = tensor_layout(s.type, s.shape, s.strides).broadcast_to(shape);
  return {s.type, layout.shape(), layout.strides(), s.alignment};
}

/// States the elements of a packed copy and their order; see `constant_copy_key`.
std::string order_of(const tensor_spec& source, const tensor_spec& copy) {
  return std::string(to_string(source.type)) + ' ' + to_string(source.shape) + ' ' +
         to_string(source.strides) + ' ' + to_string(copy.strides);
}

}  // namespace

executable::builder::builder(executable& owner, form& target, const program_graph& graph,
                             const program_inference& inferred, const folding& folded,
                             const fusion& groups, plans_by_key& plans, lane_libraries& libraries,
                             kept_plans* kept)
    : owner_(owner),
      target_(target),
      graph_(graph),
      inferred_(inferred),
      folded_(folded),
      groups_(groups),
      plans_(plans),
      libraries_(libraries),
      kept_(kept) {
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
        roots_.back() = {place::kind::constant, constant->place.block, constant->place.offset};
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

void executable::builder::add_steps() {
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

void executable::builder::settle_places() {
  target_.erase_left_out();
  lay_out_scratch();
  for (auto& entry : target_.actions) {
    for (auto& location : entry.operands) settle(location);
    settle(entry.workspace);
    entry.packings = std::vector<constant_packing>();
  }
}

executable::place executable::builder::external(std::size_t number) const {
  return {place::kind::external,
          static_cast<std::uint32_t>(graph_.inputs().size() + graph_.constants().size() + number),
          0};
}

executable::place executable::builder::new_buffer(std::size_t bytes) {
  // Not `out_of_memory`: it does not help to plan again.
  if (bytes > memory_) {
    throw error(errc::unsupported, "an intermediate value, a packed copy or a workspace takes " +
                                       std::to_string(bytes) + " bytes, but the device has " +
                                       std::to_string(memory_) + " bytes of memory");
  }
  buffers_.push_back({.bytes = bytes});
  return {place::kind::scratch, static_cast<std::uint32_t>(buffers_.size() - 1), 0};
}

executable::place executable::builder::place_of(const located& value) const {
  auto result = roots_[value.root];
  result.offset += value.layout.offset();
  return result;
}

void executable::builder::place_result(const program_graph::step_result& result) {
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

bool executable::builder::can_take_over(const program_graph::step_result& result) const {
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

std::string executable::builder::label_of(const fused_group& group) const {
  std::string label = "steps ";
  for (std::size_t i = 0; i < group.steps.size(); ++i) {
    if (i != 0) label += i + 1 == group.steps.size() ? " and " : ", ";
    label += "'" + graph_.steps()[group.steps[i]].name + "'";
  }
  return label;
}

void executable::builder::add_step(const program_inference::step& inferred,
                                   const std::vector<std::uint32_t>& operands,
                                   const program_graph::step& step,
                                   const program_graph::step& last) {
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

void executable::builder::add_operation(const fused_group& group) {
  add_step(group.operation, group.operands, graph_.steps()[group.steps.front()],
           graph_.steps()[group.steps.back()]);
}

void executable::builder::add_map(const fused_group& group) {
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

void executable::builder::add_copy(const place& source, const tensor_spec& source_spec,
                                   const place& target, const tensor_spec& target_spec) {
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

void executable::builder::add(action new_action) {
  const auto kind = libraries_.runtime().device().id().kind;
  new_action.label = label_;
  new_action.step = step_;
  new_action.descriptor->prepare(libraries_);
  if (new_action.descriptor->makes_plans(kind)) {
    const auto plan = plan_of(new_action);
    new_action.plan = plan;
    if (plan->workspace_bytes() != 0) new_action.workspace = new_buffer(plan->workspace_bytes());
    target_.commands += plan->commands();
  }
  target_.commands += new_action.descriptor->facts(new_action.call).commands;
  target_.actions.push_back(std::move(new_action));
}

std::shared_ptr<const operation_plan> executable::builder::plan_of(const action& new_action) {
  const auto& descriptor = *new_action.descriptor;
  const auto bytes = descriptor.key(libraries_.runtime().device().id().kind, new_action.call);
  const std::pair key{&descriptor,
                      std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())};
  auto& plan = plans_[key];
  if (plan) return plan;
  if (kept_ != nullptr) {
    const auto found = kept_->plans.find(key);
    if (found != kept_->plans.end()) plan = found->second;
  }
  const bool is_new = !plan;
  if (is_new) plan = descriptor.make_plan(libraries_, new_action.call);
  if (!plan) throw error(errc::library_failure, "no plan was made");
  owner_.plans_.push_back(plan);
  if (is_new && kept_ != nullptr) {
    kept_->plans.emplace(key, plan);
    kept_->was_interrupted = kept_->is_interrupted && kept_->is_interrupted();
    if (kept_->was_interrupted) throw error(errc::cancelled, "other plans come first");
  }
  return plan;
}

void executable::builder::lay_out_scratch() {
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

void executable::builder::keep(const place& location, std::size_t number) {
  if (location.memory != place::kind::scratch) return;
  auto& buffer = buffers_[location.number];
  buffer.first = std::min(buffer.first, number);
  buffer.last = std::max(buffer.last, number);
}

void executable::builder::settle(place& location) const {
  if (location.memory == place::kind::scratch) location.offset += buffers_[location.number].offset;
}

}  // namespace sluice::operations
