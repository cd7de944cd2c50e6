// SPDX-License-Identifier: Apache-2.0
#include "operations/program/fusion.hpp"

#include "operations/elementwise/layouts.hpp"
#include "operations/program/fusible_step.hpp"
#include "operations/program/permuted_copy.hpp"
#include "operations/program/program_graph.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <queue>
#include <utility>

namespace sluice::operations {
namespace {

using detail::program_graph;
using located = program_inference::located;
using value_kind = program_graph::value_kind;

constexpr auto not_given = program_graph::none;
constexpr auto max_arguments = fused_map::max_arguments;

class group_finder {
 public:
  group_finder(const program_graph& graph, const program_inference& inferred, const folding& folded,
               device_kind kind, fusion groups)
      : graph_(graph),
        inferred_(inferred),
        kind_(kind),
        result_(std::move(groups)),
        candidates_(graph.steps().size()),
        readers_(readers_of(graph)),
        overwritten_(overwriters_of(graph, inferred)),
        axes_(graph.steps().size()) {
    const auto is_apart = steps_apart(graph, inferred, folded);
    for (std::uint32_t s = 0; s < graph.steps().size(); ++s) {
      if (!is_apart[s] && result_.group_of_step[s] == fusion::none) {
        candidates_[s] = fusible_step_of(graph, inferred, s);
      }
    }
  }

  fusion find() {
    for (auto last = static_cast<std::uint32_t>(candidates_.size()); last-- > 0;) {
      if (candidates_[last] && result_.group_of_step[last] == fusion::none) grow(last);
    }
    result_.set_last_reads(graph_);
    return std::move(result_);
  }

 private:
  /// The step that makes a value, if it can be in a group.
  [[nodiscard]] std::uint32_t maker_of(std::uint32_t value) const {
    const auto& v = graph_.values()[graph_.viewed(value)];
    if (v.kind != value_kind::result) return not_given;
    const auto step = graph_.results()[v.source].step;
    const bool is_free =
        candidates_[step] && candidates_[step]->call && result_.group_of_step[step] == fusion::none;
    return is_free ? step : not_given;
  }

  /// How the dimensions of a step follow those of the group: by dimension of the group. Nothing if
  /// not all that read its result are in the group, each at the same index.
  [[nodiscard]] std::optional<extents> axes_in_group(std::uint32_t step) const {
    const auto value = candidates_[step]->result;
    if (graph_.use_of(value).outputs != 0) return std::nullopt;
    std::optional<extents> axes;
    for (const auto reader : readers_[value]) {
      if (std::find(members_.begin(), members_.end(), reader) == members_.end())
        return std::nullopt;
      const auto& c = *candidates_[reader];
      for (const auto input : c.inputs) {
        if (input == not_given || graph_.viewed(input) != value) continue;
        const auto order =
            order_of_dimensions(inferred_.values[input].layout, inferred_.values[value].layout);
        if (!order || inferred_.values[input].layout.shape() != c.shape) return std::nullopt;
        extents through;
        for (const auto d : axes_[reader]) {
          through.push_back((*order)[static_cast<std::size_t>(d)]);
        }
        if (axes && *axes != through) return std::nullopt;
        axes = through;
      }
    }
    return axes;
  }

  /// Whether the inputs of a step are as they were when its group is computed, and are not kept
  /// much longer because of that.
  [[nodiscard]] bool may_wait(std::uint32_t step, std::uint32_t last) const {
    const auto& c = *candidates_[step];
    const auto& result = inferred_.values[candidates_[last]->result].layout;
    std::size_t longer = 0;
    for (std::size_t k = 0; k < c.inputs.size(); ++k) {
      if (c.inputs[k] == not_given) continue;
      const auto& value = inferred_.values[c.inputs[k]];
      const auto viewed = graph_.viewed(c.inputs[k]);
      const auto& source = graph_.values()[viewed];
      if (source.kind == value_kind::input) {
        const auto overwriter = overwritten_[source.source];
        if (overwriter < last) return false;
        // The group itself writes there: each element is read before, and nowhere else.
        if (overwriter == last &&
            (!candidates_[last]->call || value.layout.offset() != 0 ||
             value.layout.strides() != result.strides() || value.layout.shape() != result.shape() ||
             value.layout.type() != result.type() || !is_identity(axes_[step]))) {
          return false;
        }
      }
      if (source.kind == value_kind::result && graph_.use_of(viewed).steps <= step + 1) {
        longer += inferred_.values[viewed].spec().bytes();
      }
    }
    bool is_next = true;
    for (auto s = step + 1; is_next && s < last; ++s) {
      is_next = std::find(members_.begin(), members_.end(), s) != members_.end();
    }
    return is_next || longer <= inferred_.values[c.result].spec().bytes();
  }
  [[nodiscard]] static bool is_identity(const extents& axes) noexcept {
    for (std::size_t d = 0; d < axes.size(); ++d) {
      if (axes[d] != static_cast<std::int64_t>(d)) return false;
    }
    return true;
  }

  /// The members as one map; nothing if that would be too large.
  [[nodiscard]] std::optional<fused_group> group() const {
    if (members_.size() > fused_map::max_functions) return std::nullopt;
    fused_group result;
    result.steps = members_;
    std::sort(result.steps.begin(), result.steps.end());
    struct input {
      std::uint32_t value;
      extents strides;
    };
    std::vector<input> inputs;
    // Inputs are numbered first, so they are found first.
    std::vector<std::array<std::uint8_t, max_arguments>> arguments;
    for (const auto step : result.steps) {
      const auto& c = *candidates_[step];
      auto& numbers = arguments.emplace_back();
      numbers.fill(fused_map::none);
      for (std::size_t k = 0; k < c.inputs.size(); ++k) {
        if (c.inputs[k] == not_given || member_that_makes(c.inputs[k], result.steps)) continue;
        extents strides;
        for (const auto d : axes_[step]) {
          strides.push_back(c.strides[k][static_cast<std::size_t>(d)]);
        }
        const auto same = [&](const input& other) {
          const auto& a = inferred_.values[other.value];
          const auto& b = inferred_.values[c.inputs[k]];
          return a.root == b.root && a.layout.offset() == b.layout.offset() &&
                 a.layout.type() == b.layout.type() && other.strides == strides;
        };
        auto position = std::find_if(inputs.begin(), inputs.end(), same);
        if (position == inputs.end()) {
          if (inputs.size() == fused_map::max_inputs) return std::nullopt;
          inputs.push_back({c.inputs[k], strides});
          position = inputs.end() - 1;
        }
        numbers[k] = static_cast<std::uint8_t>(position - inputs.begin());
      }
    }
    auto map = std::make_shared<fused_map>();
    map->inputs = inputs.size();
    for (std::size_t i = 0; i < result.steps.size(); ++i) {
      const auto& c = *candidates_[result.steps[i]];
      if (!c.call) continue;
      for (std::size_t k = 0; k < c.inputs.size(); ++k) {
        if (c.inputs[k] == not_given || arguments[i][k] != fused_map::none) continue;
        arguments[i][k] = static_cast<std::uint8_t>(inputs.size() +
                                                    *member_that_makes(c.inputs[k], result.steps));
      }
      map->functions.push_back({*c.call, arguments[i]});
    }
    const auto& last = *candidates_[result.steps.back()];
    const auto& y = inferred_.values[last.result];
    fused_operands operands;
    operands.strides.fill(last.call ? y.layout.strides() : last.strides[0]);
    operands.types.fill(y.layout.type());
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const auto& value = inferred_.values[inputs[k].value];
      result.operands.push_back(inputs[k].value);
      operands.strides[k + 1] = inputs[k].strides;
      operands.types[k + 1] = value.layout.type();
      map->alignments[k + 1] = static_cast<std::uint16_t>(value.alignment);
    }
    map->alignments[0] = static_cast<std::uint16_t>(y.alignment);
    if (last.call) {
      map->layout = make_layout<fused_map::operands>(last.shape, operands.strides, operands.types);
    } else {
      operands.types[0] = inferred_.values[last.inputs[0]].layout.type();
      add_reduction(*map, last, y.layout, operands);
    }
    map->place();
    if (map->bytes > fused_map::max_bytes) return std::nullopt;
    if (map->reduced && kind_ == device_kind::host && !host::reduces_in_blocks(*map)) {
      return std::nullopt;
    }
    result.map = std::move(map);
    return result;
  }
  /// The position in `steps` of the step that makes a value.
  [[nodiscard]] std::optional<std::size_t> member_that_makes(
      std::uint32_t value, const std::vector<std::uint32_t>& steps) const {
    const auto& v = graph_.values()[graph_.viewed(value)];
    if (v.kind != value_kind::result) return std::nullopt;
    const auto position =
        std::lower_bound(steps.begin(), steps.end(), graph_.results()[v.source].step);
    if (position == steps.end() || *position != graph_.results()[v.source].step)
      return std::nullopt;
    return static_cast<std::size_t>(position - steps.begin());
  }

  void grow(std::uint32_t last) {
    members_ = {last};
    axes_[last] = {};
    for (std::size_t d = 0; d < candidates_[last]->shape.size(); ++d) {
      axes_[last].push_back(static_cast<std::int64_t>(d));
    }
    std::priority_queue<std::uint32_t> todo;  // the last one first: all that read it are known
    const auto add_makers = [&](std::uint32_t step) {
      for (const auto input : candidates_[step]->inputs) {
        const auto maker = input == not_given ? not_given : maker_of(input);
        if (maker != not_given) todo.push(maker);
      }
    };
    add_makers(last);
    std::optional<fused_group> found;
    while (!todo.empty()) {
      const auto step = todo.top();
      while (!todo.empty() && todo.top() == step) todo.pop();
      const auto axes = axes_in_group(step);
      if (!axes) continue;
      axes_[step] = *axes;
      if (!may_wait(step, last)) continue;
      members_.push_back(step);
      auto larger = group();
      if (!larger) {
        members_.pop_back();
        continue;
      }
      found = std::move(larger);
      add_makers(step);
    }
    if (found) result_.add(std::move(*found));
  }

  const program_graph& graph_;
  const program_inference& inferred_;
  device_kind kind_;
  fusion result_;
  std::vector<std::optional<fusible_step>> candidates_;  // by step
  std::vector<std::vector<std::uint32_t>> readers_;      // by value: steps, in order
  std::vector<std::uint32_t> overwritten_;               // by input: the step that writes there
  std::vector<extents> axes_;                            // by step of the group
  std::vector<std::uint32_t> members_;                   // of the group
};

}  // namespace

fusion::fusion(const program_graph& graph)
    : group_of_step(graph.steps().size(), none), last_read(graph.values().size(), 0) {
  for (std::uint32_t v = 0; v < last_read.size(); ++v) {
    last_read[v] = graph.use_of(v).steps;
  }
}

void fusion::add(fused_group group) {
  for (const auto step : group.steps) {
    group_of_step[step] = static_cast<std::uint32_t>(groups.size());
  }
  groups.push_back(std::move(group));
}

void fusion::set_last_reads(const program_graph& graph) {
  for (std::uint32_t s = 0; s < graph.steps().size(); ++s) {
    const auto number = group_of_step[s];
    const auto computed = number == none ? s : groups[number].steps.back();
    for (const auto operand : graph.steps()[s].operands) {
      if (operand == not_given) continue;
      auto& last = last_read[graph.viewed(operand)];
      last = std::max(last, computed + 1);
    }
  }
}

std::size_t fusion::steps() const noexcept {
  std::size_t sum = 0;
  for (const auto& g : groups) sum += g.steps.size();
  return sum;
}

fusion fuse_maps(const program_graph& graph, const program_inference& inferred,
                 const folding& folded, device_kind kind, fusion groups) {
  return group_finder(graph, inferred, folded, kind, std::move(groups)).find();
}

std::vector<std::vector<std::uint32_t>> readers_of(const program_graph& graph) {
  std::vector<std::vector<std::uint32_t>> all(graph.values().size());
  for (std::uint32_t s = 0; s < graph.steps().size(); ++s) {
    for (const auto operand : graph.steps()[s].operands) {
      if (operand == not_given) continue;
      auto& readers = all[graph.viewed(operand)];
      if (readers.empty() || readers.back() != s) readers.push_back(s);
    }
  }
  return all;
}

std::vector<std::uint32_t> overwriters_of(const program_graph& graph,
                                          const program_inference& inferred) {
  std::vector<std::uint32_t> overwriters(graph.inputs().size(), fusion::none);
  for (const auto& w : inferred.written) {
    if (!w.result || !w.output) continue;
    for (const auto input : inferred.outputs[*w.output].same_as) {
      overwriters[input] = graph.results()[*w.result].step;
    }
  }
  return overwriters;
}

std::vector<bool> steps_apart(const program_graph& graph, const program_inference& inferred,
                              const folding& folded) {
  std::vector<bool> is_apart(graph.steps().size(), false);
  for (const auto& v : inferred.varying) is_apart[v.number] = true;
  for (const auto& s : folded.steps) is_apart[s.number] = true;
  return is_apart;
}

}  // namespace sluice::operations
