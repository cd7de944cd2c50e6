// SPDX-License-Identifier: Apache-2.0
#include "runtime/reports/report_table.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace sluice::detail {
namespace {

constexpr std::string_view separator = ": ";
constexpr std::string_view ellipsis = "...";

/// The FNV-1a hash of the text.
std::uint64_t hash_of(std::string_view subject, std::string_view reason) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const auto part : {subject, reason.empty() ? reason : separator, reason}) {
    for (const char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return hash;
}

/// Collects a text of limited length without line breaks.
class composer {
 public:
  void append(std::string_view part) noexcept {
    for (const char c : part) {
      if (size_ == text_.size()) {
        std::copy(ellipsis.begin(), ellipsis.end(), text_.end() - ellipsis.size());
        return;
      }
      text_[size_++] = c == '\n' || c == '\r' ? ' ' : c;
    }
  }
  [[nodiscard]] const char* data() const noexcept { return text_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  report_table::text_buffer text_;
  std::size_t size_ = 0;
};

}  // namespace

report_table::added report_table::add(std::string_view subject, std::string_view reason) noexcept {
  // The key differs from `free` and `claimed` for every count.
  const std::uint64_t hash = hash_of(subject, reason) >> (count_bits + 1) << count_bits;
  const std::uint64_t key = hash == free ? count_mask + 1 : hash;
  for (;;) {
    slot_data* room = nullptr;
    std::uint64_t room_word = 0;
    auto oldest = std::numeric_limits<std::uint64_t>::max();
    for (auto& slot : slots_) {
      auto word = slot.word.load(std::memory_order_relaxed);
      while ((word & ~count_mask) == key) {
        if ((word & count_mask) == count_mask) return added::dropped;
        if (slot.word.compare_exchange_weak(word, word + 1, std::memory_order_relaxed)) {
          return (word & count_mask) == 0 ? added::waiting : added::repeated;
        }
      }
      if (word != free && (word & count_mask) != 0) continue;
      const auto age = word == free ? 0 : slot.sequence.load(std::memory_order_relaxed);
      if (age >= oldest) continue;
      oldest = age;
      room = &slot;
      room_word = word;
    }
    if (room == nullptr) return added::dropped;
    // If this fails, another thread has made progress with that slot.
    if (!room->word.compare_exchange_strong(room_word, claimed, std::memory_order_relaxed)) {
      continue;
    }
    write(*room, subject, reason);
    // Release: who sees this sequence in `newest` sees the earlier texts of this thread.
    room->sequence.store(sequence_.fetch_add(1, std::memory_order_release) + 1,
                         std::memory_order_relaxed);
    room->word.store(key | 1, std::memory_order_release);
    return added::waiting;
  }
}

void report_table::write(slot_data& target, std::string_view subject,
                         std::string_view reason) noexcept {
  composer line;
  line.append(subject);
  if (!reason.empty()) {
    line.append(separator);
    line.append(reason);
  }
  target.length.store(line.size(), std::memory_order_relaxed);
  for (std::size_t offset = 0; offset < line.size(); offset += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, line.data() + offset, std::min(sizeof word, line.size() - offset));
    target.text[offset / sizeof word].store(word, std::memory_order_relaxed);
  }
}

report_table::state report_table::look(std::size_t slot) const noexcept {
  const auto& data = slots_[slot];
  const auto word = data.word.load(std::memory_order_acquire);
  if (word == claimed) return {};
  return {data.sequence.load(std::memory_order_relaxed),
          static_cast<std::uint32_t>(word & count_mask)};
}

std::string_view report_table::read(std::size_t slot, text_buffer& buffer) const noexcept {
  const auto& data = slots_[slot];
  const auto length = std::min(data.length.load(std::memory_order_relaxed), longest_text);
  for (std::size_t offset = 0; offset < length; offset += sizeof(std::uint64_t)) {
    const auto word = data.text[offset / sizeof(std::uint64_t)].load(std::memory_order_relaxed);
    std::memcpy(buffer.data() + offset, &word, std::min(sizeof word, length - offset));
  }
  return {buffer.data(), length};
}

void report_table::take(std::size_t slot, std::uint32_t count) noexcept {
  // Release: the loads of the text happen before the slot is seen as reusable.
  slots_[slot].word.fetch_sub(count, std::memory_order_release);
}

void report_table::forget_delivered() noexcept {
  for (auto& slot : slots_) {
    auto word = slot.word.load(std::memory_order_relaxed);
    if (word != free && (word & count_mask) == 0) {
      slot.word.compare_exchange_strong(word, free, std::memory_order_relaxed);
    }
  }
}

void report_table::clear() noexcept {
  for (auto& slot : slots_) slot.word.store(free, std::memory_order_relaxed);
}

}  // namespace sluice::detail
