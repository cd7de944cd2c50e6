// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations.hpp>

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace sluice::test {

/// A step with one operand that depends on the run, "x".
struct stepping {
  std::string operation;
  extents shape;  ///< of x
  std::function<program_value(program_builder&, const program_value& x)> add;
  element_type type = element_type::f32;
  /// Axes that are refused although they are not mixed, because few programs have runs there.
  std::set<std::size_t> refused_without_need{};
};

/// Random numbers: integers from 0 to `most`, or numbers between 0.1 and 2 if it is 0.
[[nodiscard]] host_tensor drawn_constant(element_type type, const extents& shape, int most = 0);
/// At least one step of each operation with an operand.
[[nodiscard]] std::vector<stepping> all_steppings();

}  // namespace sluice::test
