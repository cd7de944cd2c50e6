// SPDX-License-Identifier: Apache-2.0
#include "operations/program/program_inference.hpp"

#include "operations/program/program_graph.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <cstring>
#include <optional>

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
std::string key_of(std::uint64_t program, std::span<const tensor_spec> given) {
  std::string key;
  append(key, static_cast<std::int64_t>(program));
  for (const auto& s : given) {
    append(key, static_cast<std::int64_t>(s.type));
    append(key, s.shape);
    append(key, s.strides);
    append(key, static_cast<std::int64_t>(s.alignment));
  }
  return key;
}

/// The alignment of an address `offset` bytes behind one with the alignment `base`.
std::size_t alignment_at(std::size_t base, std::size_t offset) noexcept {
  return offset == 0 ? base : std::min(base, offset & (~offset + 1));
}

located result_of(const program_graph& of, program_inference& to, std::uint32_t number) {
  const auto& step = of.steps()[number];
  const auto roots = of.inputs().size() + of.constants().size();
  located result{static_cast<std::uint32_t>(roots + number), {}, tensor_spec::max_alignment};
  std::vector<std::optional<tensor_spec>> given(step.operands.size());
  auto& made = to.steps.emplace_back();
  made.row = &step.operation->row();
  made.uses.resize(given.size());
  const auto& output = made.uses[step.output];
  naming_step(*step.operation, [&] {
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (step.operands[i] == program_graph::none) continue;
      given[i] = to.values[step.operands[i]].spec();
      // What is updated is a new value, which lies without gaps.
      if (i == step.output) given[i] = tensor_spec::row_major(given[i]->type, given[i]->shape);
    }
    step.operation->infer(given, made.call, made.uses);
    if (given[step.output] && output.access != access_kind::read_write) {
      throw invalid_argument(output.of.name, "is given, but the step does not read it");
    }
    if (!output.spec) throw invalid_argument(output.of.name, "infer states no result");
    const auto& spec = given[step.output] ? *given[step.output] : *output.spec;
    result.layout = tensor_layout(spec.type, spec.shape, spec.strides);
  });
  return result;
}

}  // namespace

tensor_spec program_inference::located::spec() const {
  return {layout.type(), layout.shape(), layout.strides(), alignment};
}

program_inference infer_program(const program_graph& of, std::span<const tensor_spec> given) {
  program_inference to{.key = key_of(of.id(), given), .inputs = {given.begin(), given.end()}};
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
        to.values.push_back(
            at_start(tensor_spec::of(of.constants()[v.of].value), given.size() + v.of));
        break;
      case value_kind::result:
        to.values.push_back(result_of(of, to, v.of));
        break;
      case value_kind::view: {
        auto here = to.values[v.of];
        const auto before = here.layout.offset();
        naming("view '" + v.text + "'", [&] {
          here.layout = v.view(here.layout);
          here.alignment = alignment_at(here.alignment, here.layout.offset() - before);
          const auto size = size_of(here.layout.type());
          if (!here.layout.empty() && here.alignment < size) {
            throw error(errc::invalid_argument, "the first element is not aligned to its size, " +
                                                    std::to_string(size) + " bytes");
          }
        });
        to.values.push_back(here);
        break;
      }
    }
  }
  const auto roots = given.size() + of.constants().size();
  for (const auto output : of.outputs()) {
    const auto step = static_cast<std::uint32_t>(to.values[output].root - roots);
    if (std::find(to.written.begin(), to.written.end(), step) == to.written.end()) {
      to.written.push_back(step);
    }
  }
  to.bytes = sizeof to + to.key.size() + to.inputs.size() * sizeof(tensor_spec) +
             to.values.size() * sizeof(located);
  for (const auto& s : to.steps) to.bytes += sizeof s + s.uses.size() * sizeof(inference::use);
  return to;
}

}  // namespace sluice::operations
