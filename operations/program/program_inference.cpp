// SPDX-License-Identifier: Apache-2.0
#include "operations/program/program_inference.hpp"

#include "operations/core/work.hpp"
#include "operations/program/program_graph.hpp"

#include <sluice/operations/host_bytes.hpp>
#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
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
std::string key_of(std::uint64_t program, std::span<const tensor_spec> inputs,
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

/// Refuses a given output that does not fit the result `of`.
void require_fit(const std::string& name, const tensor_spec& given, const tensor_spec& of) {
  if (given.type != of.type) {
    throw invalid_argument(name, "is of type " + std::string(to_string(given.type)) +
                                     ", but the result is of type " +
                                     std::string(to_string(of.type)));
  }
  if (given.shape != of.shape) {
    throw invalid_argument(name, "has the shape " + to_string(given.shape) +
                                     ", but the result has the shape " + to_string(of.shape));
  }
  if (given.repeats_elements()) {
    throw invalid_argument(name, "has the shape " + to_string(given.shape) + " and the strides " +
                                     to_string(given.strides) +
                                     ", so elements of the result share memory");
  }
}

/// Whether the step `number`, which is inferred as `made`, may write its result where the input
/// `input` lies: it works in place on the whole input, and no later step reads that.
bool works_in_place(const program_graph& of, const program_inference& before, std::uint32_t number,
                    const program_inference::step& made, std::uint32_t input) {
  const auto value = of.value_of_input(input);
  if (of.use_of(value).steps > number + 1) return false;
  const auto& step = of.steps()[number];
  const auto& whole = before.inputs[input];
  for (std::size_t i = 0; i < step.operands.size(); ++i) {
    const auto operand = step.operands[i];
    if (operand == program_graph::none || of.viewed(operand) != value || made.uses[i].ignored) {
      continue;
    }
    const auto& read = before.values[operand];
    if (read.layout.offset() != 0 || read.spec() != whole) return false;
    const bool may_coincide =
        i == step.output || (made.uses[step.output].in_place_of >> i & 1U) != 0;
    if (!may_coincide) return false;
  }
  return true;
}

/// The given output into which the result of the step `number` may be written directly. Nothing if
/// there is none, or if another output is a part of the result.
std::optional<std::uint32_t> direct_output(const program_graph& of, const program_inference& before,
                                           std::uint32_t number,
                                           const program_inference::step& made) {
  const auto result = of.steps()[number].result;
  const auto& use = of.use_of(result);
  if (use.outputs != 1 || of.outputs()[use.output] != result) return std::nullopt;
  const auto& output = before.outputs[use.output];
  if (!output.spec || output.overlaps_input) return std::nullopt;
  if (!std::all_of(output.same_as.begin(), output.same_as.end(),
                   [&](auto input) { return works_in_place(of, before, number, made, input); })) {
    return std::nullopt;
  }
  return use.output;
}

/// Whether the operand that the step updates is one of the inputs `inputs`.
bool updates_one_of(const program_graph& of, const program_graph::step& step,
                    const std::vector<std::uint32_t>& inputs) {
  const auto updated = step.operands[step.output];
  if (updated == program_graph::none) return false;
  const auto& value = of.values()[of.viewed(updated)];
  return value.kind == value_kind::input &&
         std::find(inputs.begin(), inputs.end(), value.of) != inputs.end();
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
  std::string all;
  for (const auto kind : {device_kind::host, device_kind::cuda}) {
    append(all, step.row->key(kind, step.call));
  }
  append(all, static_cast<std::int64_t>(step.row->facts(step.call).commands));
  for (const auto& u : step.uses) {
    append(all, (u.spec ? 1 : 0) + (u.packed ? 2 : 0) + (u.ignored ? 4 : 0) + (u.stated ? 8 : 0));
    append(all, static_cast<std::int64_t>(u.access));
    append(all, u.in_place_of);
    if (u.spec) append(all, *u.spec);
  }
  return all;
}

/// Works out the step `number` from the values before it, with these numbers.
void infer_step(const program_graph& of, std::uint32_t number, const program_inference& before,
                std::span<const scalar> scalars, program_inference::step& made) {
  const auto& step = of.steps()[number];
  std::vector<std::optional<tensor_spec>> given(step.operands.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (step.operands[i] == program_graph::none) continue;
    given[i] = before.values[step.operands[i]].spec();
    // What is updated is a new value, which lies without gaps.
    if (i == step.output) given[i] = tensor_spec::row_major(given[i]->type, given[i]->shape);
  }
  auto bound = step.scalars;
  for (auto& one : bound) {
    if (one.is_of_program()) one = scalars[one.number()];
  }
  made.row = &step.operation->row();
  made.uses.resize(given.size());
  const auto with_operands = [&](const error& e) {
    return "step '" + step.name + "': " + e.what() + "; the step is " + of.text_of(step);
  };
  explaining(with_operands, [&] {
    step.operation->infer(given, bound, made.call, made.uses);
    const auto& output = made.uses[step.output];
    if (!given[step.output]) {
      if (!output.spec) throw invalid_argument(output.of.name, "infer states no result");
      return;
    }
    // Numbers of a run may decide whether it is read.
    const bool depends_on_run = std::any_of(step.scalars.begin(), step.scalars.end(),
                                            [](const auto& one) { return one.is_of_program(); });
    if (output.access != access_kind::read_write && !depends_on_run) {
      throw invalid_argument(output.of.name, "is given, but the step does not read it");
    }
    made.uses[step.output].spec = given[step.output];
  });
}

located result_of(const program_graph& of, program_inference& to, std::span<const scalar> scalars,
                  std::uint32_t number) {
  const auto& step = of.steps()[number];
  const auto roots = of.inputs().size() + of.constants().size();
  located result{static_cast<std::uint32_t>(roots + number), {}, tensor_spec::max_alignment};
  auto& made = to.steps.emplace_back();
  infer_step(of, number, to, scalars, made);
  if (!step.scalars.empty()) to.varying.push_back({number, structure_of(made)});
  const auto& spec = *made.uses[step.output].spec;
  result.layout = tensor_layout(spec.type, spec.shape, spec.strides);
  if (const auto direct = direct_output(of, to, number, made)) {
    const auto& given = to.outputs[*direct];
    const auto& wanted = *given.spec;
    require_fit(of.output_name(*direct), wanted, spec);
    // The step and the views of its result may depend on the alignment of new memory.
    if (wanted.strides == result.layout.strides() && wanted.alignment >= result.alignment) {
      to.written.push_back({number, direct, wanted, updates_one_of(of, step, given.same_as)});
    }
  }
  return result;
}

/// States how a launch uses the inputs, the constants and what it writes.
void add_uses(const program_graph& of, program_inference& to) {
  const auto add = [&](std::string_view name, const tensor_spec& s) -> inference::use& {
    auto& u = to.uses.emplace_back();
    u.of.name = name;
    u.spec = s;
    return u;
  };
  to.uses.reserve(of.inputs().size() + of.constants().size() + to.written.size());
  for (std::size_t i = 0; i < to.inputs.size(); ++i) {
    add(of.inputs()[i], to.inputs[i]).ignored = true;
  }
  for (const auto& constant : of.constants()) add(constant.name, constant.spec()).ignored = true;
  const auto read = to.uses.size();
  for (const auto& w : to.written) {
    auto& u = add(w.output ? of.output_name(*w.output) : of.steps()[*w.step].name, w.spec);
    u.of.role = member_role::output;
    u.access = access_kind::write;
    u.stated = true;
    // No step reads an input after it is overwritten; see `works_in_place`.
    u.written_last = !w.step || (w.output && !to.outputs[*w.output].same_as.empty());
  }
  for (std::size_t s = 0; s < to.steps.size(); ++s) {
    const auto& step = of.steps()[s];
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      if (step.operands[i] == program_graph::none) continue;
      const auto& u = to.steps[s].uses[i];
      if (i == step.output ? u.access == access_kind::write : u.ignored) continue;
      const auto root = to.values[step.operands[i]].root;
      if (root < read) to.uses[root].ignored = false;
    }
  }
}

/// The size of an inference in host memory, without `padded`.
std::size_t size_of(const program_inference& made) noexcept {
  using detail::host_bytes;
  // A plan that is being made has two more copies of the key.
  std::size_t sum = sizeof made + 3 * made.key.capacity() + host_bytes(made.inputs) +
                    host_bytes(made.values) + host_bytes(made.written) +
                    host_bytes(made.memory_of_output) +
                    made.outputs.capacity() * sizeof(given_output) +
                    made.steps.capacity() * sizeof(program_inference::step) +
                    made.varying.capacity() * sizeof(program_inference::varying_step) +
                    made.uses.capacity() * sizeof(inference::use);
  for (const auto& one : made.outputs) sum += host_bytes(one.same_as);
  for (const auto& one : made.steps) sum += one.uses.capacity() * sizeof(inference::use);
  for (const auto& one : made.varying) sum += one.structure.capacity();
  return sum;
}

}  // namespace

tensor_spec program_inference::located::spec() const {
  return {layout.type(), layout.shape(), layout.strides(), alignment};
}

program_inference infer_program(const program_graph& of, std::span<const tensor_spec> given,
                                std::span<const scalar> scalars,
                                std::span<const given_output> outputs) {
  program_inference to{.key = key_of(of.id(), given, outputs),
                       .inputs = {given.begin(), given.end()},
                       .outputs = {outputs.begin(), outputs.end()}};
  to.values.reserve(of.values().size());
  to.steps.reserve(of.steps().size());
  const auto at_start = [](const tensor_spec& s, std::size_t root) -> located {
    return {static_cast<std::uint32_t>(root), tensor_layout(s.type, s.shape, s.strides),
            s.alignment};
  };
  for (const auto& v : of.values()) {
    switch (v.kind) {
      case value_kind::input:
        to.values.push_back(at_start(given[v.of], v.of));
        break;
      case value_kind::constant:
        to.values.push_back(at_start(of.constants()[v.of].spec(), given.size() + v.of));
        break;
      case value_kind::result:
        to.values.push_back(result_of(of, to, scalars, v.of));
        break;
      case value_kind::view: {
        auto here = to.values[v.of];
        const auto before = here.layout.offset();
        const auto number = static_cast<std::uint32_t>(to.values.size());
        naming([&] { return "view '" + of.name_of(number) + "'"; },
               [&] {
                 here.layout = v.view(here.layout);
                 here.alignment = alignment_at(here.alignment, here.layout.offset() - before);
                 const auto size = size_of(here.layout.type());
                 if (!here.layout.empty() && here.alignment < size) {
                   throw error(errc::invalid_argument,
                               "the first element is known to be aligned to " +
                                   std::to_string(here.alignment) +
                                   " bytes only, but its size is " + std::to_string(size) +
                                   " bytes");
                 }
               });
        to.values.push_back(here);
        break;
      }
    }
  }
  const auto roots = given.size() + of.constants().size();
  constexpr auto none = program_graph::none;
  std::vector<std::uint32_t> memory_of_step(of.steps().size(), none);
  to.memory_of_output.assign(of.outputs().size(), none);
  const auto write = [&](const program_inference::written_memory& memory) {
    to.written.push_back(memory);
    return static_cast<std::uint32_t>(to.written.size() - 1);
  };
  for (std::uint32_t i = 0; i < to.written.size(); ++i) {
    to.memory_of_output[*to.written[i].output] = i;
  }
  for (std::uint32_t i = 0; i < of.outputs().size(); ++i) {
    const auto& value = to.values[of.outputs()[i]];
    const auto step = static_cast<std::uint32_t>(value.root - roots);
    auto& memory = to.memory_of_output[i];
    if (outputs[i].spec) {
      if (memory != none) continue;
      require_fit(of.output_name(i), *outputs[i].spec, value.spec());
      memory = write({std::nullopt, i, *outputs[i].spec});
    } else if (outputs[i].is_downloaded && !value.spec().is_contiguous()) {
      const auto packed = tensor_spec::row_major(value.layout.type(), value.layout.shape());
      memory = write({std::nullopt, i, packed});
    } else {
      auto& shared = memory_of_step[step];
      if (shared == none) {
        shared = write({step, std::nullopt, to.values[of.steps()[step].result].spec()});
      }
      memory = shared;
    }
  }
  add_uses(of, to);
  for (const auto& v : to.varying) append(to.key, std::as_bytes(std::span(v.structure)));
  to.bytes = size_of(to);
  for (const auto& s : to.steps) to.work += work_of(s.row->facts(s.call), s.uses);
  return to;
}

void check_steps(const program_graph& of, const program_inference& inferred, device_kind kind) {
  for (std::size_t i = 0; i < inferred.steps.size(); ++i) {
    const auto& step = inferred.steps[i];
    naming_step(of.steps()[i].name, [&] { step.row->check(kind, step.call); });
  }
}

plan_price price_of_plans(const program_inference& inferred, device_kind kind) {
  // Steps with equal keys share a plan.
  std::map<std::pair<const operation_row*, std::string>, plan_price> plans;
  for (const auto& step : inferred.steps) {
    if (!step.row->makes_plans(kind)) continue;
    const auto key = step.row->key(kind, step.call);
    plans.try_emplace(
        {step.row, std::string(reinterpret_cast<const char*>(key.data()), key.size())},
        step.row->price_of_plan(kind, step.call));
  }
  constexpr double work_of_step = 1024;
  plan_price sum{.work = work_of_step * static_cast<double>(inferred.steps.size())};
  for (const auto& [key, price] : plans) {
    if (__builtin_add_overflow(sum.host_bytes, price.host_bytes, &sum.host_bytes)) {
      sum.host_bytes = std::numeric_limits<std::size_t>::max();
    }
    sum.work += price.work;
  }
  return sum;
}

std::optional<std::vector<step_call>> calls_for(const program_graph& of,
                                                const program_inference& known,
                                                std::span<const scalar> scalars) {
  std::vector<step_call> calls;
  calls.reserve(known.varying.size());
  for (const auto& v : known.varying) {
    program_inference::step made;
    infer_step(of, v.number, known, scalars, made);
    if (structure_of(made) != v.structure) return std::nullopt;
    calls.push_back({v.number, made.call});
  }
  return calls;
}

std::vector<step_call> calls_of(const program_inference& made) {
  std::vector<step_call> calls;
  calls.reserve(made.varying.size());
  for (const auto& v : made.varying) calls.push_back({v.number, made.steps[v.number].call});
  return calls;
}

}  // namespace sluice::operations
