// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/quoted_name.hpp"

#include <cstddef>

namespace sluice::service {
namespace {

constexpr std::size_t max_name_bytes = 128;

[[nodiscard]] bool continues_character(char c) noexcept {
  return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U;
}

}  // namespace

std::string quoted_name(std::string_view name) {
  std::size_t bytes = name.size();
  if (bytes > max_name_bytes) {
    bytes = max_name_bytes;
    while (bytes > 0 && continues_character(name[bytes])) --bytes;
  }
  std::string text = "\"";
  for (const char c : name.substr(0, bytes)) {
    const auto code = static_cast<unsigned char>(c);
    text += code < 0x20 || code == 0x7f ? '?' : c;
  }
  text += bytes < name.size() ? "...\"" : "\"";
  return text;
}

}  // namespace sluice::service
