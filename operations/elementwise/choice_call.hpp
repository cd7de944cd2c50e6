// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/indexed_dimensions.hpp"
#include "operations/elementwise/map_calls.hpp"

#include <cstdint>
#include <cstring>

// Tensors whose elements depend on their index. Kernels include this header, so it compiles as
// C++17.
namespace sluice::operations {

/// What a coordinate must be for an element to be chosen.
enum class choice_rule : std::uint8_t { at_most, at_least, equal, equal_to_index };

/// y = x, or else `on`, where the coordinate follows the rule, and `off` elsewhere. Operands: y, x
/// or the indices, coordinate. The latter is no memory: its position is the number that the rule is
/// about.
struct choice_call {
  map_layout<3> layout{};
  choice_rule rule = choice_rule::equal;
  std::int64_t bound = 0;  ///< what the coordinate is compared with; the extent of indices
  unsigned char on[16]{};
  unsigned char off[16]{};
};

/// Computes the elements of a `choice_call`, which are copied as `Bits`.
template <class Bits>
struct choice_body {
  map_addresses addresses;
  choice_rule rule;
  std::int64_t bound;
  Bits on;
  Bits off;

  SLUICE_HOST_DEVICE void operator()(const map_layout<3>& layout,
                                     const map_position<3>& position) const noexcept {
    Bits value = off;
    if (holds(layout, position)) {
      const bool has_x = rule != choice_rule::equal_to_index && addresses.inputs[0] != nullptr;
      value = has_x ? element_at<Bits>(addresses.inputs[0], position.offsets[1]) : on;
    }
    put_element(addresses.y, position.offsets[0], value);
  }

 private:
  [[nodiscard]] SLUICE_HOST_DEVICE bool holds(const map_layout<3>& layout,
                                              const map_position<3>& position) const noexcept {
    const std::int64_t coordinate = position.offsets[2];
    if (rule == choice_rule::at_most) return coordinate <= bound;
    if (rule == choice_rule::at_least) return coordinate >= bound;
    if (rule == choice_rule::equal) return coordinate == bound;
    const resolved_index index(
        load<std::int64_t>(layout.types[1], addresses.inputs[0], position.offsets[1]), bound);
    return index.is_valid && index.value == coordinate;
  }
};

template <class Run>
int visit(const choice_call& call, const map_addresses& addresses, const Run& run) {
  return visiting::with_bits(call.layout.types[0], [&](auto bits) {
    auto on = bits;
    std::memcpy(&on, call.on, sizeof on);
    std::memcpy(&bits, call.off, sizeof bits);
    return run(choice_body<decltype(bits)>{addresses, call.rule, call.bound, on, bits},
               call.layout);
  });
}

}  // namespace sluice::operations
