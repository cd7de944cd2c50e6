// SPDX-License-Identifier: Apache-2.0
#include "operations/program/folded_launches.hpp"

#include "operations/program/program_graph.hpp"

#include <array>
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
                      .places = std::vector<std::optional<constant_place>>(count),
                      .types = std::vector<element_type>(count)};
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_output = i == step.outputs.front();
      const auto value = is_output ? graph.results()[step.first_result].value : step.operands[i];
      if (value == program_graph::none || inference.uses[i].ignored) continue;
      new_launch.places[i] = is_output ? constant_place{.offset = each.offset}
                                       : folded.place_of_value(graph, inferred, value);
      new_launch.types[i] = inferred.values[value].layout.type();
    }
    launches_.push_back(std::move(new_launch));
  }
}

template <class Work>
void folded_launches::for_each(std::span<std::byte* const> blocks, const Work& work) const {
  for (const auto& each : launches_) {
    std::array<void*, max_operands> addresses{};
    for (std::size_t i = 0; i < each.places.size(); ++i) {
      if (const auto& place = each.places[i]) addresses[i] = blocks[place->block] + place->offset;
    }
    naming_step(each.name, [&] {
      work(each, launch_memory{.addresses = std::span(addresses).first(each.places.size()),
                               .types = each.types});
    });
  }
}

void folded_launches::prepare(lane_libraries& libraries) const {
  for (const auto& each : launches_) {
    naming_step(each.name, [&] { each.descriptor->prepare(libraries); });
  }
}

void folded_launches::compute(std::span<std::byte* const> blocks) const {
  for_each(blocks, [](const launch& each, const launch_memory& memory_of_step) {
    each.descriptor->compute(each.call, memory_of_step);
  });
}

void folded_launches::enqueue(lane_libraries& libraries, std::span<std::byte* const> blocks) const {
  for_each(blocks, [&](const launch& each, const launch_memory& memory_of_step) {
    each.descriptor->enqueue(libraries, each.call, memory_of_step);
  });
}

}  // namespace sluice::operations
