// SPDX-License-Identifier: Apache-2.0
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/extents.hpp>

namespace sluice {

void extents::refuse_rank(std::size_t rank) {
  throw invalid_argument(
      "extents", "have " + std::to_string(rank) + " dimensions, but at most 8 are possible");
}

std::string to_string(const extents& values) {
  std::string text = "[";
  for (const auto value : values) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(value);
  }
  return text + "]";
}

}  // namespace sluice
