// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice::models {

/// Inputs of a model, by number, in order.
using input_numbers = std::vector<std::uint32_t>;

/// The sets of inputs that the values of a graph depend on. A union refers to its two parts, so a
/// chain of nodes takes memory proportional to its length. Elements are only counted for an error.
class source_sets {
 public:
  /// The number of a set; 0: no inputs.
  using set = std::uint32_t;

  /// The set with one input.
  [[nodiscard]] set single(std::uint32_t input);
  [[nodiscard]] set join(set a, set b);
  [[nodiscard]] input_numbers elements(set s) const;

 private:
  /// A union of two earlier sets; of one input if both are 0.
  struct part {
    set a = 0;
    set b = 0;
    std::uint32_t input = 0;
  };

  std::vector<part> parts_{part{}};
};

}  // namespace sluice::models
