// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::detail {

/// The texts that wait to be delivered, each with the number of equal reports: a fixed number of
/// slots, without locks or allocations.
///
/// Any thread adds; one thread, the writer, reads and takes. A repeated text only increments the
/// count of its slot, so that a flood of equal reports displaces no other report. A text whose
/// reports have all been taken stays in its slot, to recognize repetitions, until its slot is
/// needed.
///
/// Adding is one-way: the writer acquires what the reporting threads released. They acquire
/// nothing, neither from the writer nor from each other, because that would order stream threads
/// among themselves and hide missing fences from ThreadSanitizer. Therefore a slot is claimed for a
/// new text with a relaxed operation, and its text consists of relaxed atomic words. Without the
/// acquire, the language permits the writer to read words of the next text. Hardware does not do
/// that: the writer's loads precede its release of the slot, and stores that depend on the claim
/// follow it. The worst result would be one garbled line.
class report_table {
 public:
  static constexpr std::size_t slots = 64;
  static constexpr std::size_t longest_text = 1024;  ///< longer ones end in "..."
  using text_buffer = std::array<char, longest_text>;

  enum class added : std::uint8_t {
    waiting,   ///< nothing of this text was waiting before
    repeated,  ///< the text was waiting already
    dropped,   ///< all slots have other texts that wait
  };
  /// Adds a report of "what: why", or of `what` alone.
  added add(std::string_view what, std::string_view why) noexcept;

  /// A slot, as the writer sees it.
  struct state {
    std::uint64_t sequence = 0;  ///< grows from one new text to the next; never 0
    std::uint32_t waiting = 0;   ///< reports that have not been taken; 0: nothing to do
  };
  /// Only the writer makes `waiting` smaller, and a slot with `waiting` > 0 keeps its text.
  [[nodiscard]] state look(std::size_t slot) const noexcept;
  /// The text of a slot with `waiting` > 0. For the writer.
  [[nodiscard]] std::string_view read(std::size_t slot, text_buffer& into) const noexcept;
  /// Subtracts `count` from what waits. Once nothing waits the slot may get another text. For the
  /// writer.
  void take(std::size_t slot, std::uint32_t count) noexcept;

  /// Forgets the texts of which nothing waits.
  void forget_delivered() noexcept;
  /// Forgets all texts. In a process with one thread.
  void clear() noexcept;

 private:
  // The word of a slot: 40 bits of a hash of the text, 24 bits of what waits.
  static constexpr unsigned count_bits = 24;
  static constexpr std::uint64_t count_mask = (std::uint64_t{1} << count_bits) - 1;
  static constexpr std::uint64_t free = 0;
  static constexpr std::uint64_t claimed = ~std::uint64_t{0};  // its text is being written

  struct slot_data {
    std::atomic<std::uint64_t> word{free};
    std::atomic<std::uint64_t> sequence{0};
    std::atomic<std::size_t> length{0};
    std::array<std::atomic<std::uint64_t>, longest_text / sizeof(std::uint64_t)> text{};
  };
  static void write(slot_data& into, std::string_view what, std::string_view why) noexcept;

  std::array<slot_data, slots> slots_;
  std::atomic<std::uint64_t> sequence_{0};
};

}  // namespace sluice::detail
