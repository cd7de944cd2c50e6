// SPDX-License-Identifier: Apache-2.0
#include "models/export/utf8.hpp"

#include <cstddef>

namespace sluice::models {

namespace {

/// The bytes of a character that begins with this one; 0 if none does.
std::size_t length_after(unsigned char first) noexcept {
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}
/// Whether the second byte makes the character too long, a surrogate, or larger than U+10FFFF.
bool is_excluded(unsigned char first, unsigned char second) noexcept {
  return (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
         (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  while (!text.empty()) {
    const auto length = length_after(byte(0));
    if (length == 0 || length > text.size()) return false;
    for (std::size_t i = 1; i < length; ++i) {
      if ((byte(i) & 0xC0U) != 0x80U) return false;
    }
    if (length > 1 && is_excluded(byte(0), byte(1))) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace sluice::models
