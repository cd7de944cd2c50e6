// SPDX-License-Identifier: Apache-2.0
#include "tools/io/displayed.hpp"

namespace sluice::io {

namespace {

bool is_control(unsigned char character) noexcept {
  return character < 0x20 || character == 0x7f;
}

}  // namespace

std::string displayed(const std::filesystem::path& path) {
  std::string text = path.native();
  for (char& character : text)
    if (is_control(static_cast<unsigned char>(character))) character = '?';
  return text;
}

std::string quoted(std::string_view text, std::size_t limit) {
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string result = "'";
  for (const char character : text.substr(0, limit)) {
    const auto byte = static_cast<unsigned char>(character);
    if (is_control(byte) || byte >= 0x80) {
      result += "\\x";
      result += digits[byte >> 4];
      result += digits[byte & 15];
    } else {
      result += character;
    }
  }
  if (text.size() > limit) result += "...";
  return result + "'";
}

}  // namespace sluice::io
