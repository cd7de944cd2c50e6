// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>

namespace sluice::service {

/// Whether two texts are equal if capital letters of ASCII count as small ones.
[[nodiscard]] inline bool equals_ignoring_case(std::string_view a, std::string_view b) noexcept {
  constexpr auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [lower](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace sluice::service
