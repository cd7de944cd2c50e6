// SPDX-License-Identifier: Apache-2.0
// Graphs within nodes, as far as they are known to run.
#include "models/operator_table.hpp"

#include <sluice/operations/concatenate.hpp>

#include <algorithm>
#include <array>
#include <limits>

namespace sluice::models {

namespace {

/// Turns of a loop that are unrolled.
constexpr std::int64_t max_turns = 1024;

/// The elements of each turn as the indices of a dimension.
value stack_turns(const node& n, const std::vector<value>& turns, std::int64_t axis) {
  if (turns.empty()) throw n.unsupported("body", "collects outputs of no turn");
  constexpr std::size_t most = 32;  // operands of a step
  std::vector<value> parts;
  for (std::size_t first = 0; first < turns.size(); first += most) {
    const auto last = std::min(turns.size(), first + most);
    parts.push_back(
        n.add(stack{.x = std::vector<operand>(turns.begin() + static_cast<std::ptrdiff_t>(first),
                                              turns.begin() + static_cast<std::ptrdiff_t>(last)),
                    .axis = axis}));
  }
  if (parts.size() == 1) return parts.front();
  return n.add(concatenate{.x = std::vector<operand>(parts.begin(), parts.end()), .axis = axis});
}

results import_if(const node& n) {
  return n.import_subgraph(n.integer(0, "cond") != 0 ? "then_branch" : "else_branch", {});
}

/// Unrolled. The condition after each turn must be known.
results import_loop(const node& n) {
  const auto limit = n.has_input(0) ? n.integer(0, "M") : std::numeric_limits<std::int64_t>::max();
  bool goes_on = !n.has_input(1) || n.integer(1, "cond") != 0;
  std::vector<value> carried;
  for (std::size_t i = 2; i < n.input_count(); ++i) carried.push_back(n.input(i));
  std::vector<std::vector<value>> collected;
  const auto outputs = static_cast<std::size_t>(n.require_attribute("body").g().output_size());
  if (outputs < carried.size() + 1) throw n.refusal("body", "has too few outputs");
  collected.resize(outputs - 1 - carried.size());
  for (std::int64_t turn = 0; goes_on && turn < limit; ++turn) {
    if (turn == max_turns) throw n.unsupported("M", "more than 1024 turns");
    std::vector<value> inputs{n.constant(host_tensor(std::vector{turn}, {})),
                              n.number(element_type::boolean, 1)};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    const auto after = n.import_subgraph("body", inputs);
    const auto& condition = after[0].known();
    if (!condition) throw n.unsupported("body", "its condition depends on data");
    goes_on = condition.values<bool>()[0];
    for (std::size_t i = 0; i < carried.size(); ++i) carried[i] = after[i + 1];
    for (std::size_t i = 0; i < collected.size(); ++i) {
      collected[i].push_back(after[i + 1 + carried.size()]);
    }
  }
  results all;
  for (auto& last : carried) all.push_back(last);
  for (const auto& turns : collected) all.push_back(stack_turns(n, turns, 0));
  return all;
}

/// Unrolled over the elements along an axis of the scanned inputs. Version 8 has batches.
results import_scan(const node& n) {
  const auto count = static_cast<std::size_t>(n.attribute("num_scan_inputs", std::int64_t{0}));
  if (count == 0 || count > n.input_count()) throw n.refusal("num_scan_inputs", "does not fit");
  const auto states = n.input_count() - count;
  const auto outputs = static_cast<std::size_t>(n.require_attribute("body").g().output_size());
  if (outputs < states) throw n.refusal("body", "has too few outputs");
  const auto read = [&](const char* name, std::size_t size) {
    auto numbers = n.attribute(name, std::vector<std::int64_t>(size, 0));
    if (numbers.size() != size) throw n.refusal(name, "has another number of elements");
    return numbers;
  };
  const auto axes = read("scan_input_axes", count);
  const auto directions = read("scan_input_directions", count);
  const auto output_axes = read("scan_output_axes", outputs - states);
  const auto output_directions = read("scan_output_directions", outputs - states);
  std::vector<value> carried;
  for (std::size_t i = 0; i < states; ++i) carried.push_back(n.input(i));
  std::vector<std::size_t> dimensions;
  for (std::size_t i = 0; i < count; ++i) {
    dimensions.push_back(n.dimension(axes[i], n.input(states + i).rank(), "scan_input_axes"));
  }
  const auto turns = n.input(states).extent(dimensions.front());
  if (turns > max_turns) throw n.unsupported("num_scan_inputs", "more than 1024 turns");
  std::vector<std::vector<value>> collected(outputs - states);
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    auto inputs = carried;
    for (std::size_t i = 0; i < count; ++i) {
      const auto& x = n.input(states + i);
      if (x.extent(dimensions[i]) != turns) throw n.refusal("scan_input_axes", "extents differ");
      inputs.push_back(x.select(dimensions[i], directions[i] != 0 ? turns - 1 - turn : turn));
    }
    const auto after = n.import_subgraph("body", inputs);
    for (std::size_t i = 0; i < states; ++i) carried[i] = after[i];
    for (std::size_t i = 0; i < collected.size(); ++i) collected[i].push_back(after[states + i]);
  }
  results all;
  for (auto& last : carried) all.push_back(last);
  for (std::size_t i = 0; i < collected.size(); ++i) {
    if (output_directions[i] != 0) std::reverse(collected[i].begin(), collected[i].end());
    all.push_back(stack_turns(n, collected[i], output_axes[i]));
  }
  return all;
}

constexpr std::array entries{
    operator_entry{"If", import_if, 1, folding::never},
    operator_entry{"Loop", import_loop, 1, folding::never},
    operator_entry{"Scan", import_scan, 9, folding::never},
};

}  // namespace

std::span<const operator_entry> control_flow_operators() {
  return entries;
}

}  // namespace sluice::models
