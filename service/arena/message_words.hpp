// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::service {

/// A message in private memory, while it is made or after it was copied. It is a sequence of 64-bit
/// words; in shared memory their number precedes them.
using message_words = std::vector<std::uint64_t>;

/// The bytes that a message of this many words takes in shared memory.
[[nodiscard]] constexpr std::uint64_t message_bytes(std::size_t words) noexcept {
  return (words + 1) * sizeof(std::uint64_t);
}

/// Copies a message to the beginning of a region that no other process reads yet.
/// @throws std::invalid_argument if it does not fit
void write_message(const message_words& message, std::span<std::byte> region);

/// Copies the message at the beginning of `memory` out of it. Each word is loaded exactly once, so
/// that a peer that writes at the same time cannot change what was checked.
/// @throws arena_fault if the message is longer than `memory` or than `max_words`
[[nodiscard]] message_words read_message(std::span<std::byte> memory, std::size_t max_words);

/// Reads the words of a message that may be malformed.
class word_reader {
 public:
  /// The words must outlive the reader.
  explicit word_reader(std::span<const std::uint64_t> words) noexcept : left_(words) {}

  /// The next word.
  /// @throws arena_fault at the end of the message
  std::uint64_t next();
  /// The next word, a number up to `limit`.
  /// @throws arena_fault at the end of the message or if the number is larger
  std::uint64_t next_up_to(std::uint64_t limit);
  /// The next words.
  /// @throws arena_fault if there are fewer
  std::span<const std::uint64_t> next_words(std::size_t count);
  /// @throws arena_fault if there are further words
  void finish() const;

 private:
  std::span<const std::uint64_t> left_;
};

}  // namespace sluice::service
