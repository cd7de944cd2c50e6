// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::service {

/// The shared memory of a ring for one producer and one consumer: zeros at the beginning.
///
/// `head` counts the entries that were read, `tail` those that were written. The entry with number
/// n lies in slot n modulo the number of slots, which is a power of two.
///
/// Storing `tail` happens-before the consumer's load of it, and with it go the entry and all memory
/// that the entry is about. Storing `head` happens-before the producer's load of it, so that the
/// producer overwrites no slot that is still read.
struct ring_memory {
  std::uint64_t* head = nullptr;
  std::uint64_t* tail = nullptr;
  std::span<std::uint64_t> slots{};
};

/// Writes into a ring. Used by one thread at a time.
class ring_producer {
 public:
  explicit ring_producer(ring_memory ring) noexcept : ring_(ring) {}

  /// Appends an entry; false if the ring is full.
  /// @throws arena_fault if the consumer claims to have read what was not written
  [[nodiscard]] bool push(std::uint64_t entry);

 private:
  ring_memory ring_;
  std::uint64_t tail_ = 0;
  std::uint64_t head_ = 0;  ///< as it was last seen
};

/// Reads from a ring. Used by one thread at a time.
class ring_consumer {
 public:
  explicit ring_consumer(ring_memory ring) noexcept : ring_(ring) {}

  /// Removes the oldest entries, as many as there are and fit, and returns their number. The
  /// entries themselves are as the producer wrote them, unchecked.
  /// @throws arena_fault if the producer claims to have written more than fits
  [[nodiscard]] std::size_t pop(std::span<std::uint64_t> entries);
  /// Whether there is nothing to read. Ordered with the flag of `wake_signal`.
  [[nodiscard]] bool is_empty() const noexcept;

 private:
  ring_memory ring_;
  std::uint64_t head_ = 0;
};

}  // namespace sluice::service
