// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::detail {

/// The texts that await delivery, each with its number of reports. A fixed number of slots, without
/// locks or allocations.
///
/// Any thread adds. One thread, the writer, reads and takes. A repeated text only increments the
/// count of its slot, so a flood of equal reports displaces no other report. A text whose reports
/// have been taken stays in its slot, to recognize repetitions, until the slot is needed.
///
/// Adding is one-way: the writer acquires what reporting threads released. Reporting threads
/// acquire nothing, because that would order stream threads and hide missing waits from
/// ThreadSanitizer. A slot is therefore claimed with a relaxed operation, and its text consists of
/// relaxed atomic words.
///
/// Without the acquire, the language permits the writer to read words of the next text. Hardware
/// does not: the writer's loads precede its release of the slot, and stores that depend on the
/// claim follow it. The worst result would be one garbled line.
class report_table {
 public:
  static constexpr std::size_t slots = 64;
  static constexpr std::size_t longest_text = 1024;  ///< longer ones end in "..."
  using text_buffer = std::array<char, longest_text>;

  enum class added : std::uint8_t {
    waiting,   ///< no report of this text was waiting
    repeated,  ///< a report of the text was waiting already
    dropped,   ///< all slots hold other texts that wait
  };
  /// Adds a report of "subject: reason", or of `subject` alone.
  added add(std::string_view subject, std::string_view reason) noexcept;

  /// The state of a slot, for the writer.
  struct state {
    std::uint64_t sequence = 0;  ///< grows with each new text; never 0
    std::uint32_t pending = 0;   ///< reports that have not been taken
  };
  /// The sequence of the newest text. Every text that its thread added before is visible to `look`.
  [[nodiscard]] std::uint64_t newest() const noexcept {
    return sequence_.load(std::memory_order_acquire);
  }
  /// The state of a slot. Only the writer decreases `pending`. A slot with `pending` > 0 keeps its
  /// text.
  [[nodiscard]] state look(std::size_t slot) const noexcept;
  /// The text of a slot with `pending` > 0. For the writer.
  [[nodiscard]] std::string_view read(std::size_t slot, text_buffer& buffer) const noexcept;
  /// Subtracts `count` reports. Once none waits, the slot may receive another text. For the writer.
  void take(std::size_t slot, std::uint32_t count) noexcept;

  /// Forgets the texts without waiting reports.
  void forget_delivered() noexcept;
  /// Forgets all texts. Only in a process with one thread.
  void clear() noexcept;

 private:
  // The word of a slot: 40 bits of a hash of the text, then 24 bits of the number of waiting
  // reports.
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
  static void write(slot_data& target, std::string_view subject, std::string_view reason) noexcept;

  std::array<slot_data, slots> slots_;
  std::atomic<std::uint64_t> sequence_{0};
};

}  // namespace sluice::detail
