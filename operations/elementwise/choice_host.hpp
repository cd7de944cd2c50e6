// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/choice_call.hpp"
#include "operations/elementwise/host_loop.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice::host {

/// The elements `begin` to `end` of a line.
struct chosen_run {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// The elements of a line of `count` whose coordinates, which change by `step` of -1, 0 or 1,
/// follow a rule.
[[nodiscard]] inline chosen_run find_run(operations::choice_rule rule, std::int64_t bound,
                                         std::int64_t first, std::int64_t step,
                                         std::int64_t count) noexcept {
  using operations::choice_rule;
  // Coordinates are smaller than that.
  constexpr std::int64_t most = std::int64_t{1} << 62U;
  const auto distance = std::clamp(bound, -most, most) - first;
  if (step == 0) {
    const bool is_chosen = rule == choice_rule::at_most    ? distance >= 0
                           : rule == choice_rule::at_least ? distance <= 0
                                                           : distance == 0;
    return {0, is_chosen ? count : 0};
  }
  // The place of the coordinate that is the bound.
  const auto place = step * distance;
  const auto before = std::clamp<std::int64_t>(place, 0, count);
  const auto behind = std::clamp<std::int64_t>(place + 1, 0, count);
  if (rule != choice_rule::at_most && rule != choice_rule::at_least) return {before, behind};
  const bool comes_first = (rule == choice_rule::at_most) == (step > 0);
  return comes_first ? chosen_run{0, behind} : chosen_run{before, count};
}

/// Writes one line whose chosen elements are neighbours.
template <class Bits>
void choose_line(const operations::choice_body<Bits>& body, const operations::map_layout<3>& layout,
                 const operations::map_position<3>& line) noexcept {
  using operations::choice_rule;
  const int last = layout.rank - 1;
  const auto count = layout.shape[last];
  const auto y_stride = layout.strides[0][last];
  const auto x_stride = layout.strides[1][last];
  auto* const y = static_cast<Bits*>(body.addresses.y) + line.offsets[0];
  const void* const input = body.addresses.inputs[0];
  auto bound = body.bound;
  if (body.rule == choice_rule::equal_to_index) {
    const operations::resolved_index index(
        operations::load<std::int64_t>(layout.types[1], input, line.offsets[1]), bound);
    bound = index.is_valid ? index.value : -1;
  }
  const auto run = find_run(body.rule, bound, line.offsets[2], layout.strides[2][last], count);
  const auto fill = [&](std::int64_t begin, std::int64_t end, Bits value) {
    if (y_stride == 1) {
      std::fill(y + begin, y + end, value);
    } else {
      for (auto i = begin; i < end; ++i) y[i * y_stride] = value;
    }
  };
  fill(0, run.begin, body.off);
  fill(run.end, count, body.off);
  if (body.rule == choice_rule::equal_to_index || input == nullptr) {
    return fill(run.begin, run.end, body.on);
  }
  const auto* const x = static_cast<const Bits*>(input) + line.offsets[1];
  if (y_stride == 1 && x_stride == 1) {
    // y may be x.
    std::memmove(y + run.begin, x + run.begin,
                 static_cast<std::size_t>(run.end - run.begin) * sizeof(Bits));
  } else {
    for (auto i = run.begin; i < run.end; ++i) y[i * y_stride] = x[i * x_stride];
  }
}

/// Computes a `choice_call` whose indices do not change along lines.
template <class Bits>
void choose_lines(const operations::choice_body<Bits>& body,
                  const operations::map_layout<3>& layout) {
  constexpr map_cost cost{.nanoseconds = 0.5};
  for_each_part(
      layout, cost,
      [&](const operations::map_layout<3>& part, const operations::map_position<3>& origin) {
        for_each_line(part, origin, [&](const operations::map_position<3>& line) {
          choose_line(body, part, line);
        });
      });
}

}  // namespace sluice::host
