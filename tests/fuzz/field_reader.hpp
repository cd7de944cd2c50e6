// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace sluice::fuzz {

/// Makes the fields of a descriptor from an input; 0 where that has ended.
class field_reader {
 public:
  explicit field_reader(std::span<const std::uint8_t> input) noexcept : left_(input) {}

  [[nodiscard]] std::uint8_t byte() noexcept {
    if (left_.empty()) return 0;
    const auto first = left_.front();
    left_ = left_.subspan(1);
    return first;
  }
  [[nodiscard]] bool flag() noexcept { return byte() % 2 != 0; }
  /// Small numbers, which most checks are about, are one byte; after 0x80 come eight of any.
  [[nodiscard]] std::int64_t number() noexcept {
    const auto first = byte();
    if (first != 0x80) return static_cast<std::int8_t>(first);
    std::uint64_t any = 0;
    for (int i = 0; i < 8; ++i) any = any << 8U | byte();
    return static_cast<std::int64_t>(any);
  }
  [[nodiscard]] void* address() noexcept {
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(number()));
  }

 private:
  std::span<const std::uint8_t> left_;
};

}  // namespace sluice::fuzz
