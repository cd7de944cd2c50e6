// SPDX-License-Identifier: Apache-2.0
#include "operations/program/folded_launches.hpp"

#include "operations/program/program_graph.hpp"

#include <array>
#include <span>
#include <utility>

namespace sluice::operations {

using detail::program_graph;

folded_launches::folded_launches(const folding& folded, const program_graph& graph,
                                 const program_inference& inferred) {
  launches_.reserve(folded.steps.size());
  for (const auto& each : folded.steps) {
    const auto& step = graph.steps()[each.number];
    const auto& inference = inferred.steps[each.number];
    const auto count = step.operands.size();
    launch new_launch{.name = step.name,
                      .descriptor = inference.descriptor,
                      .call = inference.call,
                      .offsets = std::vector(count, nowhere),
                      .types = std::vector<element_type>(count)};
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_output = i == step.outputs.front();
      const auto value = is_output ? graph.results()[step.first_result].value : step.operands[i];
      if (value == program_graph::none || inference.uses[i].ignored) continue;
      new_launch.offsets[i] =
          is_output ? each.offset : *folded.offset_of_value(graph, inferred, value);
      new_launch.types[i] = inferred.values[value].layout.type();
    }
    launches_.push_back(std::move(new_launch));
  }
}

template <class Work>
void folded_launches::for_each(std::byte* memory, const Work& work) const {
  for (const auto& each : launches_) {
    std::array<void*, max_operands> addresses{};
    for (std::size_t i = 0; i < each.offsets.size(); ++i) {
      if (each.offsets[i] != nowhere) addresses[i] = memory + each.offsets[i];
    }
    naming_step(each.name, [&] {
      work(each, launch_memory{.addresses = std::span(addresses).first(each.offsets.size()),
                               .types = each.types});
    });
  }
}

void folded_launches::prepare(lane_libraries& libraries) const {
  for (const auto& each : launches_) {
    naming_step(each.name, [&] { each.descriptor->prepare(libraries); });
  }
}

void folded_launches::compute(std::byte* memory) const {
  for_each(memory, [](const launch& each, const launch_memory& memory_of_step) {
    each.descriptor->compute(each.call, memory_of_step);
  });
}

void folded_launches::enqueue(lane_libraries& libraries, std::byte* memory) const {
  for_each(memory, [&](const launch& each, const launch_memory& memory_of_step) {
    each.descriptor->enqueue(libraries, each.call, memory_of_step);
  });
}

}  // namespace sluice::operations
