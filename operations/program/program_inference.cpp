// SPDX-License-Identifier: Apache-2.0
#include "operations/program/program_inference.hpp"

#include "operations/core/work.hpp"
#include "operations/program/output_layout.hpp"
#include "operations/program/program_graph.hpp"
#include "operations/program/run_axes.hpp"
#include "operations/program/stacked_view.hpp"

#include <sluice/operations/host_bytes.hpp>
#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace sluice::operations {
namespace {

using detail::program_graph;
using located = program_inference::located;
using value_kind = program_graph::value_kind;

void append(std::string& key, std::int64_t number) {
  std::array<char, sizeof number> bytes{};
  std::memcpy(bytes.data(), &number, sizeof number);
  key.append(bytes.data(), bytes.size());
}
void append(std::string& key, const extents& numbers) {
  append(key, static_cast<std::int64_t>(numbers.size()));
  for (const auto number : numbers) append(key, number);
}
void append(std::string& key, const tensor_spec& s) {
  append(key, static_cast<std::int64_t>(s.type));
  append(key, s.shape);
  append(key, s.strides);
  append(key, static_cast<std::int64_t>(s.alignment));
}
std::string run_key_of(std::uint64_t program, std::span<const tensor_spec> inputs,
                       std::span<const given_output> outputs) {
  std::string key;
  append(key, static_cast<std::int64_t>(program));
  for (const auto& s : inputs) append(key, s);
  for (const auto& o : outputs) {
    append(key, (o.spec ? 1 : 0) + (o.overlaps_input ? 2 : 0) + (o.is_downloaded ? 4 : 0));
    append(key, static_cast<std::int64_t>(o.same_as.size()));
    for (const auto input : o.same_as) append(key, input);
    if (o.spec) append(key, *o.spec);
  }
  return key;
}

}  // namespace

void require_fit(const std::string& name, const tensor_spec& output, const tensor_spec& result) {
  if (output.type != result.type) {
    throw invalid_argument(name, "is of type " + std::string(to_string(output.type)) +
                                     ", but the result is of type " +
                                     std::string(to_string(result.type)));
  }
  if (output.shape != result.shape) {
    throw invalid_argument(name, "has the shape " + to_string(output.shape) +
                                     ", but the result has the shape " + to_string(result.shape));
  }
  if (output.repeats_elements()) {
    throw invalid_argument(name, "has the shape " + to_string(output.shape) + " and the strides " +
                                     to_string(output.strides) +
                                     ", so elements of the result share memory");
  }
}

namespace {

/// Whether a step, which is inferred as `step_inference`, may write `result` where the input
/// `input` lies: it works in place on the whole input, and no later step reads that.
bool works_in_place(const program_graph& graph, const program_inference& inferred,
                    const program_graph::step_result& result,
                    const program_inference::step& step_inference, std::uint32_t input) {
  const auto value = graph.value_of_input(input);
  if (graph.use_of(value).steps > result.step + 1) return false;
  const auto& step = graph.steps()[result.step];
  const auto& input_spec = inferred.inputs[input];
  // What the step updates is put into the memory of the result before the step reads the input.
  const auto updated = step.operands[result.operand];
  if (updated != program_graph::none && graph.viewed(updated) != value &&
      step_inference.uses[result.operand].access != access_kind::write) {
    return false;
  }
  for (std::size_t i = 0; i < step.operands.size(); ++i) {
    const auto operand = step.operands[i];
    if (operand == program_graph::none || graph.viewed(operand) != value ||
        step_inference.uses[i].ignored) {
      continue;
    }
    const auto& operand_value = inferred.values[operand];
    if (operand_value.layout.offset() != 0 || operand_value.spec() != input_spec) return false;
    const bool may_coincide =
        i == result.operand || (step_inference.uses[result.operand].in_place_of >> i & 1U) != 0;
    if (!may_coincide) return false;
  }
  return true;
}

/// The given output into which `result` may be written directly. Nothing if there is none, or if
/// another output is a part of the result.
std::optional<std::uint32_t> direct_output(const program_graph& graph,
                                           const program_inference& inferred,
                                           const program_graph::step_result& result,
                                           const program_inference::step& step_inference) {
  const auto& use = graph.use_of(result.value);
  if (use.outputs != 1 || graph.outputs()[use.output] != result.value) return std::nullopt;
  const auto& output = inferred.outputs[use.output];
  if (!output.spec || output.overlaps_input) return std::nullopt;
  if (!std::all_of(output.same_as.begin(), output.same_as.end(), [&](auto input) {
        return works_in_place(graph, inferred, result, step_inference, input);
      })) {
    return std::nullopt;
  }
  return use.output;
}

/// Whether the operand that a step updates in `result` is one of the inputs `inputs`.
bool updates_one_of(const program_graph& graph, const program_graph::step_result& result,
                    const std::vector<std::uint32_t>& inputs) {
  const auto updated = graph.steps()[result.step].operands[result.operand];
  if (updated == program_graph::none) return false;
  const auto& value = graph.values()[graph.viewed(updated)];
  return value.kind == value_kind::input &&
         std::find(inputs.begin(), inputs.end(), value.source) != inputs.end();
}

/// The alignment of an address `offset` bytes behind one with the alignment `base`.
std::size_t alignment_at(std::size_t base, std::size_t offset) noexcept {
  return offset == 0 ? base : std::min(base, offset & (~offset + 1));
}

void append(std::string& key, std::span<const std::byte> bytes) {
  append(key, static_cast<std::int64_t>(bytes.size()));
  key.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}
std::string structure_of(const program_inference::step& step) {
  std::string text;
  for (const auto kind : {device_kind::host, device_kind::cuda}) {
    append(text, step.descriptor->key(kind, step.call));
  }
  append(text, static_cast<std::int64_t>(step.descriptor->facts(step.call).commands));
  for (const auto& u : step.uses) {
    append(text, (u.spec ? 1 : 0) + (u.packed ? 2 : 0) + (u.ignored ? 4 : 0) + (u.stated ? 8 : 0));
    append(text, static_cast<std::int64_t>(u.access));
    append(text, u.in_place_of);
    if (u.spec) append(text, *u.spec);
  }
  return text;
}

/// Refuses a value that its step does not make: an output that its parameters leave out.
void require_made(const program_graph& graph, const located& value, std::uint32_t number) {
  if (value.root != located::nowhere) return;
  throw error(errc::invalid_argument, "'" + graph.name_of(number) + "' is not made by its step");
}

/// Works out the step `number` from the values before it, with these numbers.
void infer_step(const program_graph& graph, std::uint32_t number, const program_inference& inferred,
                std::span<const scalar> scalars, program_inference::step& step_inference) {
  const auto& step = graph.steps()[number];
  std::vector<std::optional<tensor_spec>> specs(step.operands.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (step.operands[i] == program_graph::none) continue;
    const auto& operand_value = inferred.values[step.operands[i]];
    naming_step(step.name, [&] { require_made(graph, operand_value, step.operands[i]); });
    specs[i] = operand_value.spec();
    // What is updated is a new value, which lies without gaps.
    if (step.result_at(i)) specs[i] = tensor_spec::row_major(specs[i]->type, specs[i]->shape);
  }
  auto bound = step.scalars;
  for (auto& bound_scalar : bound) {
    if (bound_scalar.is_of_program()) bound_scalar = scalars[bound_scalar.number()];
  }
  step_inference.descriptor = &step.operation->descriptor();
  step_inference.uses.resize(specs.size());
  const auto with_operands = [&](const error& e) {
    return "step '" + step.name + "': " + e.what() + "; the step is " + graph.text_of(step);
  };
  explaining(with_operands, [&] {
    step.operation->infer(specs, bound, step_inference.call, step_inference.uses);
    // Numbers of a run may decide whether an output is read.
    const bool depends_on_run =
        std::any_of(step.scalars.begin(), step.scalars.end(),
                    [](const auto& bound_scalar) { return bound_scalar.is_of_program(); });
    for (const auto number_of_output : step.outputs) {
      auto& output = step_inference.uses[number_of_output];
      const auto& given = specs[number_of_output];
      if (!given) {
        if (!output.spec && step.outputs.size() == 1)
          throw invalid_argument(output.operand.name, "infer states no result");
        continue;
      }
      if (output.access != access_kind::read_write && !depends_on_run) {
        throw invalid_argument(output.operand.name, "is given, but the step does not read it");
      }
      output.spec = given;
    }
    lie_as_output(graph, number, inferred.outputs, specs, bound, step_inference);
  });
}

/// Works out the step with the result `number`, if that is its first one, and the properties of the
/// result.
located result_of(const program_graph& graph, program_inference& inferred,
                  std::span<const scalar> scalars, std::uint32_t number) {
  const auto& result = graph.results()[number];
  const auto& step = graph.steps()[result.step];
  if (number == step.first_result) {
    auto& new_inference = inferred.steps.emplace_back();
    infer_step(graph, result.step, inferred, scalars, new_inference);
    if (!step.scalars.empty())
      inferred.varying.push_back({result.step, structure_of(new_inference)});
  }
  const auto& step_inference = inferred.steps.back();
  const auto& spec = step_inference.uses[result.operand].spec;
  if (!spec) return {};
  const auto roots = graph.inputs().size() + graph.constants().size();
  const located value{static_cast<std::uint32_t>(roots + number),
                      tensor_layout(spec->type, spec->shape, spec->strides),
                      tensor_spec::max_alignment};
  if (const auto direct = direct_output(graph, inferred, result, step_inference)) {
    const auto& output = inferred.outputs[*direct];
    const auto& output_spec = *output.spec;
    require_fit(graph.output_name(*direct), output_spec, *spec);
    // The step and the views of its result may depend on the alignment of new memory.
    if (output_spec.strides == value.layout.strides() && output_spec.alignment >= value.alignment) {
      inferred.written.push_back(
          {number, direct, output_spec, updates_one_of(graph, result, output.same_as)});
    }
  }
  return value;
}

/// States how a launch uses the inputs, the constants and what it writes.
void add_uses(const program_graph& graph, program_inference& inferred) {
  const auto add = [&](std::string_view name, const tensor_spec& s) -> inference::use& {
    auto& u = inferred.uses.emplace_back();
    u.operand.name = name;
    u.spec = s;
    return u;
  };
  inferred.uses.reserve(graph.inputs().size() + graph.constants().size() + inferred.written.size());
  for (std::size_t i = 0; i < inferred.inputs.size(); ++i) {
    add(graph.inputs()[i], inferred.inputs[i]).ignored = true;
  }
  for (const auto& constant : graph.constants()) add(constant.name, constant.spec()).ignored = true;
  const auto read_count = inferred.uses.size();
  for (const auto& w : inferred.written) {
    // A view of the name: it lives as long as the graph.
    auto& u = add(w.output ? graph.output_name(*w.output)
                           : graph.steps()[graph.results()[*w.result].step].name,
                  w.spec);
    u.operand.role = member_role::output;
    u.access = access_kind::write;
    u.stated = true;
    // No step reads an input after it is overwritten; see `works_in_place`.
    u.written_last = !w.result || (w.output && !inferred.outputs[*w.output].same_as.empty());
  }
  for (std::size_t s = 0; s < inferred.steps.size(); ++s) {
    const auto& step = graph.steps()[s];
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      if (step.operands[i] == program_graph::none) continue;
      const auto& u = inferred.steps[s].uses[i];
      if (step.result_at(i) ? u.access == access_kind::write : u.ignored) continue;
      const auto root = inferred.values[step.operands[i]].root;
      if (root < read_count) inferred.uses[root].ignored = false;
    }
  }
}

/// The size of an inference in host memory, without `padded`.
std::size_t size_of(const program_inference& inferred) noexcept {
  using detail::host_bytes;
  // A plan that is being made has two more copies of the key.
  std::size_t sum = sizeof inferred + 3 * inferred.key.capacity() + host_bytes(inferred.inputs) +
                    host_bytes(inferred.values) + host_bytes(inferred.written) +
                    host_bytes(inferred.memory_of_output) +
                    inferred.outputs.capacity() * sizeof(given_output) +
                    inferred.steps.capacity() * sizeof(program_inference::step) +
                    inferred.varying.capacity() * sizeof(program_inference::varying_step) +
                    inferred.uses.capacity() * sizeof(inference::use);
  for (const auto& output : inferred.outputs) sum += host_bytes(output.same_as);
  for (const auto& step : inferred.steps) sum += step.uses.capacity() * sizeof(inference::use);
  for (const auto& step : inferred.varying) sum += step.structure.capacity();
  return sum;
}

}  // namespace

tensor_spec program_inference::located::spec() const {
  return {layout.type(), layout.shape(), layout.strides(), alignment};
}

program_inference infer_program(const program_graph& graph, std::span<const tensor_spec> inputs,
                                std::span<const scalar> scalars,
                                std::span<const given_output> outputs, const run_stack* stack) {
  program_inference inferred{.key = run_key_of(graph.id(), inputs, outputs),
                             .inputs = {inputs.begin(), inputs.end()},
                             .outputs = {outputs.begin(), outputs.end()}};
  inferred.values.reserve(graph.values().size());
  inferred.steps.reserve(graph.steps().size());
  const auto at_start = [](const tensor_spec& s, std::size_t root) -> located {
    return {static_cast<std::uint32_t>(root), tensor_layout(s.type, s.shape, s.strides),
            s.alignment};
  };
  // Where the runs of the stack lie in a value, as far as views need it. What a step does to them
  // is checked afterwards; see `axes_of_runs`.
  std::vector<std::optional<std::size_t>> axes;
  for (const auto& v : graph.values()) {
    auto& axis = axes.emplace_back();
    switch (v.kind) {
      case value_kind::input:
        if (stack != nullptr) axis = stack->axes[v.source];
        inferred.values.push_back(at_start(inputs[v.source], v.source));
        break;
      case value_kind::constant:
        inferred.values.push_back(
            at_start(graph.constants()[v.source].spec(), inputs.size() + v.source));
        break;
      case value_kind::result:
        inferred.values.push_back(result_of(graph, inferred, scalars, v.source));
        if (stack != nullptr) {
          const auto number = inferred.values.size() - 1;
          axis = proportional_axis(stack->alone.values[number].layout.shape(),
                                   inferred.values[number].layout.shape(), stack->count);
        }
        break;
      case value_kind::view: {
        auto located_value = inferred.values[v.source];
        const auto offset = located_value.layout.offset();
        const auto number = static_cast<std::uint32_t>(inferred.values.size());
        naming(
            [&] {
              const auto name = graph.name_of(number);
              return v.text.empty() ? name : "view '" + name + "'";
            },
            [&] {
              require_made(graph, located_value, v.source);
              if (stack != nullptr && axes[v.source]) {
                // A view without a text checks the shape of one run.
                const auto [layout, runs_axis] =
                    v.text.empty()
                        ? stacked_view{located_value.layout, axes[v.source]}
                        : view_of_runs(v.view, located_value.layout, *axes[v.source], stack->count);
                located_value.layout = layout;
                axis = runs_axis;
              } else {
                located_value.layout = v.view(located_value.layout);
              }
              located_value.alignment =
                  alignment_at(located_value.alignment, located_value.layout.offset() - offset);
              const auto size = size_of(located_value.layout.type());
              if (!located_value.layout.empty() && located_value.alignment < size) {
                throw error(errc::invalid_argument, "the first element is known to be aligned to " +
                                                        std::to_string(located_value.alignment) +
                                                        " bytes only, but its size is " +
                                                        std::to_string(size) + " bytes");
              }
            });
        inferred.values.push_back(located_value);
        break;
      }
    }
  }
  const auto roots = inputs.size() + graph.constants().size();
  constexpr auto none = program_graph::none;
  std::vector<std::uint32_t> memory_of_result(graph.results().size(), none);
  inferred.memory_of_output.assign(graph.outputs().size(), none);
  const auto write = [&](const program_inference::written_memory& memory) {
    inferred.written.push_back(memory);
    return static_cast<std::uint32_t>(inferred.written.size() - 1);
  };
  for (std::uint32_t i = 0; i < inferred.written.size(); ++i) {
    inferred.memory_of_output[*inferred.written[i].output] = i;
  }
  for (std::uint32_t i = 0; i < graph.outputs().size(); ++i) {
    const auto& value = inferred.values[graph.outputs()[i]];
    naming([&] { return graph.output_name(i); },
           [&] { require_made(graph, value, graph.outputs()[i]); });
    const auto result = static_cast<std::uint32_t>(value.root - roots);
    auto& memory = inferred.memory_of_output[i];
    if (outputs[i].spec) {
      if (memory != none) continue;
      require_fit(graph.output_name(i), *outputs[i].spec, value.spec());
      memory = write({std::nullopt, i, *outputs[i].spec});
    } else if (outputs[i].is_downloaded && !value.spec().is_contiguous()) {
      const auto packed = tensor_spec::row_major(value.layout.type(), value.layout.shape());
      memory = write({std::nullopt, i, packed});
    } else {
      auto& shared = memory_of_result[result];
      if (shared == none) {
        shared =
            write({result, std::nullopt, inferred.values[graph.results()[result].value].spec()});
      }
      memory = shared;
    }
  }
  add_uses(graph, inferred);
  for (const auto& v : inferred.varying)
    append(inferred.key, std::as_bytes(std::span(v.structure)));
  inferred.bytes = size_of(inferred);
  for (const auto& s : inferred.steps) {
    const auto facts = s.descriptor->facts(s.call);
    inferred.work += work_of(facts, s.uses);
    inferred.errors = std::max(inferred.errors, facts.errors);
  }
  return inferred;
}

tensor_spec spec_of_output(const program_graph& graph, const program_inference& run,
                           std::uint32_t output) {
  const auto& memory = run.written[run.memory_of_output[output]];
  return memory.output ? memory.spec : run.values[graph.outputs()[output]].spec();
}

void check_steps(const program_graph& graph, const program_inference& inferred, device_kind kind) {
  for (std::size_t i = 0; i < inferred.steps.size(); ++i) {
    const auto& step = inferred.steps[i];
    naming_step(graph.steps()[i].name, [&] { step.descriptor->check(kind, step.call); });
  }
}

std::optional<std::vector<step_call>> calls_for(const program_graph& graph,
                                                const program_inference& inferred,
                                                std::span<const scalar> scalars) {
  std::vector<step_call> calls;
  calls.reserve(inferred.varying.size());
  for (const auto& v : inferred.varying) {
    program_inference::step step_inference;
    infer_step(graph, v.number, inferred, scalars, step_inference);
    if (structure_of(step_inference) != v.structure) return std::nullopt;
    calls.push_back({v.number, step_inference.call});
  }
  return calls;
}

std::vector<step_call> calls_of(const program_inference& inferred) {
  std::vector<step_call> calls;
  calls.reserve(inferred.varying.size());
  for (const auto& v : inferred.varying) calls.push_back({v.number, inferred.steps[v.number].call});
  return calls;
}

}  // namespace sluice::operations
