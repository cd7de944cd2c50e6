// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::operations {

/// A hash of texts that is the same in all processes (FNV-1a, 64 bits).
class content_hash {
 public:
  content_hash& add(std::string_view text) noexcept {
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
    for (auto size = text.size(), i = std::size_t{0}; i < sizeof size; ++i, size >>= 8U) {
      add_byte(static_cast<unsigned char>(size & 0xffU));
    }
    return *this;
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

 private:
  void add_byte(unsigned char byte) noexcept { value_ = (value_ ^ byte) * 0x100000001b3U; }

  std::uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace sluice::operations
