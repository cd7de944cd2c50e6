// SPDX-License-Identifier: Apache-2.0
#include "models/source_sets.hpp"

#include <algorithm>

namespace sluice::models {

source_sets::set source_sets::single(std::uint32_t input) {
  parts_.push_back({.input = input});
  return static_cast<set>(parts_.size() - 1);
}

source_sets::set source_sets::join(set a, set b) {
  if (a == b || b == 0) return a;
  if (a == 0) return b;
  parts_.push_back({.a = a, .b = b});
  return static_cast<set>(parts_.size() - 1);
}

input_numbers source_sets::elements(set s) const {
  input_numbers inputs;
  std::vector<bool> reached(std::size_t{s} + 1);
  reached[s] = true;
  // A set is made after its parts.
  for (auto i = s; i > 0; --i) {
    if (!reached[i]) continue;
    const auto& p = parts_[i];
    if (p.a == 0 && p.b == 0) {
      inputs.push_back(p.input);
    } else {
      reached[p.a] = reached[p.b] = true;
    }
  }
  std::sort(inputs.begin(), inputs.end());
  return inputs;
}

}  // namespace sluice::models
