// SPDX-License-Identifier: Apache-2.0
#include "service/arena/message_words.hpp"

#include "service/arena/arena_fault.hpp"

#include <atomic>
#include <cstring>
#include <stdexcept>

namespace sluice::service {

void write_message(const message_words& message, std::span<std::byte> region) {
  if (message_bytes(message.size()) > region.size()) {
    throw std::invalid_argument("a message is larger than its region");
  }
  const std::uint64_t count = message.size();
  std::memcpy(region.data(), &count, sizeof(count));
  if (count == 0) return;
  std::memcpy(region.data() + sizeof(count), message.data(), count * sizeof(count));
}

message_words read_message(std::span<std::byte> memory, std::size_t max_words) {
  // Atomic, because the compiler could load the words of a plain copy again later.
  auto* words = reinterpret_cast<std::uint64_t*>(memory.data());
  const auto load = [&](std::size_t i) {
    return std::atomic_ref(words[i]).load(std::memory_order_relaxed);
  };
  const auto available = memory.size() / sizeof(std::uint64_t);
  if (available == 0) throw arena_fault("a message lies outside of its memory");
  const auto count = load(0);
  if (count > max_words || count >= available) throw arena_fault("a message is too long");
  message_words message(count);
  for (std::size_t i = 0; i < count; ++i) message[i] = load(i + 1);
  return message;
}

std::uint64_t word_reader::next() {
  return next_words(1).front();
}

std::uint64_t word_reader::next_up_to(std::uint64_t limit) {
  const auto word = next();
  if (word > limit) throw arena_fault("a message has too large a number");
  return word;
}

std::span<const std::uint64_t> word_reader::next_words(std::size_t count) {
  if (count > left_.size()) throw arena_fault("a message is too short");
  const auto words = left_.first(count);
  left_ = left_.subspan(count);
  return words;
}

void word_reader::finish() const {
  if (!left_.empty()) throw arena_fault("a message is too long");
}

}  // namespace sluice::service
