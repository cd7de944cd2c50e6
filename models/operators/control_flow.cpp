// SPDX-License-Identifier: Apache-2.0
// Graphs within nodes, as far as they are known to run.
#include "models/join.hpp"
#include "models/operator_table.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace sluice::models {

namespace {

/// Turns of a loop that are unrolled.
constexpr std::int64_t max_turns = 1024;

/// The values of all turns as the indices of a dimension.
value stack_turns(const node& n, const std::vector<value>& turns, std::int64_t axis) {
  if (turns.empty()) throw n.unsupported("body", "collects outputs of no turn");
  return stack_values(n, turns, axis);
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
    n.take_turn();
    std::vector<value> inputs{n.constant(host_tensor(std::vector{turn}, {})),
                              n.number(element_type::boolean, 1)};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    const auto after = n.import_subgraph("body", inputs);
    const auto& condition = after[0].known();
    if (!condition) throw n.unsupported("body", "its condition depends on data");
    if (condition.type() != element_type::boolean || condition.size() != 1) {
      throw n.refusal("body", "its condition is not one boolean");
    }
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

/// The parts of a Scan node that its versions state in different ways.
struct scan {
  std::vector<value> states{};
  std::vector<value> inputs{};
  std::vector<std::size_t> axes{};          ///< scanned dimensions of the inputs
  std::vector<std::int64_t> directions{};   ///< of the inputs; 1: from the end
  std::vector<std::int64_t> output_axes{};  ///< new dimensions of the collected outputs
  std::vector<std::int64_t> output_directions{};
};

/// Runs the body once for each element along the scanned dimensions.
results unroll(const node& n, const scan& s) {
  const auto turns = s.inputs.front().extent(s.axes.front());
  if (turns > max_turns) throw n.unsupported("num_scan_inputs", "more than 1024 turns");
  auto carried = s.states;
  std::vector<std::vector<value>> collected(s.output_axes.size());
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    n.take_turn();
    auto inputs = carried;
    for (std::size_t i = 0; i < s.inputs.size(); ++i) {
      const auto& x = s.inputs[i];
      if (x.extent(s.axes[i]) != turns) throw n.refusal("scan_input_axes", "extents differ");
      inputs.push_back(x.select(s.axes[i], s.directions[i] != 0 ? turns - 1 - turn : turn));
    }
    const auto after = n.import_subgraph("body", inputs);
    for (std::size_t i = 0; i < carried.size(); ++i) carried[i] = after[i];
    for (std::size_t i = 0; i < collected.size(); ++i) {
      collected[i].push_back(after[carried.size() + i]);
    }
  }
  results all;
  for (const auto& last : carried) all.push_back(last);
  for (std::size_t i = 0; i < collected.size(); ++i) {
    if (s.output_directions[i] != 0) std::reverse(collected[i].begin(), collected[i].end());
    all.push_back(stack_turns(n, collected[i], s.output_axes[i]));
  }
  return all;
}

/// The scan of inputs from `first` on. The attributes of version 8 have fewer numbers.
scan read_scan(const node& n, std::size_t first, const char* directions) {
  const auto stated = n.attribute("num_scan_inputs", std::int64_t{0});
  const auto most = static_cast<std::int64_t>(n.input_count() - std::min(n.input_count(), first));
  if (stated < 1 || stated > most) {
    throw n.refusal("num_scan_inputs", "is " + std::to_string(stated) + ", but there are " +
                                           std::to_string(most) + " inputs");
  }
  const auto count = static_cast<std::size_t>(stated);
  const auto states = n.input_count() - first - count;
  const auto outputs = static_cast<std::size_t>(n.require_attribute("body").g().output_size());
  if (outputs < states) throw n.refusal("body", "has too few outputs");
  const auto read = [&](const char* name, std::size_t size) {
    auto numbers = n.attribute(name, std::vector<std::int64_t>(size, 0));
    if (numbers.size() != size) throw n.refusal(name, "has another number of elements");
    return numbers;
  };
  scan s{.directions = read(directions, count),
         .output_axes = read("scan_output_axes", outputs - states),
         .output_directions = read("scan_output_directions", outputs - states)};
  for (std::size_t i = 0; i < states; ++i) s.states.push_back(n.input(first + i));
  for (std::size_t i = 0; i < count; ++i) s.inputs.push_back(n.input(first + states + i));
  const auto axes = read("scan_input_axes", count);
  for (std::size_t i = 0; i < count; ++i) {
    s.axes.push_back(n.dimension(axes[i], s.inputs[i].rank(), "scan_input_axes"));
  }
  return s;
}
results import_scan(const node& n) {
  return unroll(n, read_scan(n, 0, "scan_input_directions"));
}

/// Version 8: the first dimension of all inputs is that of a batch, and the second is scanned.
results import_batched_scan(const node& n) {
  if (n.has_input(0)) throw n.unsupported("sequence_lens", "is given");
  const auto whole = read_scan(n, 1, "directions");
  std::vector<std::vector<value>> batches;
  for (std::int64_t b = 0; b < whole.inputs.front().extent(0); ++b) {
    n.take_turn();
    auto one = whole;
    for (auto& x : one.states) x = x.select(0, b);
    for (auto& x : one.inputs) x = x.select(0, b);
    const auto outputs = unroll(n, one);
    batches.resize(outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) batches[i].push_back(outputs[i]);
  }
  results all;
  for (const auto& outputs : batches) all.push_back(stack_turns(n, outputs, 0));
  return all;
}

constexpr std::array control_flow_entries{
    operator_entry{"If", import_if, 1, folding::never},
    operator_entry{"Loop", import_loop, 1, folding::never},
    operator_entry{"Scan", import_batched_scan, 8, folding::never},
    operator_entry{"Scan", import_scan, 9, folding::never},
};

}  // namespace

std::span<const operator_entry> control_flow_operators() {
  return control_flow_entries;
}

}  // namespace sluice::models
