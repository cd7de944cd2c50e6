// SPDX-License-Identifier: Apache-2.0
#include "models/join.hpp"

#include <sluice/operations/concatenate.hpp>
#include <sluice/operations/members.hpp>

#include <algorithm>

namespace sluice::models {

namespace {

constexpr std::size_t most_inputs = max_operands - 1;

/// The results of an operation on the first inputs, the next ones and so on.
template <class Operation>
std::vector<value> in_parts(const node& n, const std::vector<value>& x, std::int64_t axis) {
  std::vector<value> parts;
  for (std::size_t first = 0; first < x.size(); first += most_inputs) {
    const auto last = std::min(x.size(), first + most_inputs);
    parts.push_back(n.add(Operation{.x = {x.begin() + static_cast<std::ptrdiff_t>(first),
                                          x.begin() + static_cast<std::ptrdiff_t>(last)},
                                    .axis = axis}));
  }
  return parts;
}

}  // namespace

value concatenate_values(const node& n, std::vector<value> x, std::int64_t axis) {
  do {
    x = in_parts<concatenate>(n, x, axis);
  } while (x.size() > 1);
  return x.front();
}

value stack_values(const node& n, const std::vector<value>& x, std::int64_t axis) {
  auto parts = in_parts<stack>(n, x, axis);
  return parts.size() == 1 ? parts.front() : concatenate_values(n, std::move(parts), axis);
}

}  // namespace sluice::models
