// SPDX-License-Identifier: Apache-2.0
#include "service/repository/printable.hpp"

namespace sluice::service {

std::string printable(std::string_view text) {
  constexpr std::size_t longest = 256;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string result;
  for (const char c : text.substr(0, longest)) {
    if (c >= ' ' && c <= '~') {
      result += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      result += "\\x";
      result += digits[byte >> 4];
      result += digits[byte & 15];
    }
  }
  if (text.size() > longest) result += "...";
  return result;
}

}  // namespace sluice::service
