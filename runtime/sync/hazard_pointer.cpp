// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/hazard_pointer.hpp"

#include <new>
#include <thread>

namespace sluice::detail {
namespace {

/// The word of one thread. A later thread reuses it. It is never destroyed.
struct alignas(64) reader_word {
  std::atomic<const timeline*> reads{nullptr};
  std::atomic<bool> taken{true};
  reader_word* next = nullptr;
};
std::atomic<reader_word*> all_words{nullptr};

reader_word* take_word() noexcept {
  for (auto* w = all_words.load(std::memory_order_acquire); w != nullptr; w = w->next) {
    if (!w->taken.exchange(true, std::memory_order_acquire)) return w;
  }
  auto* word = new (std::nothrow) reader_word;
  if (word == nullptr) return nullptr;
  word->next = all_words.load(std::memory_order_relaxed);
  while (!all_words.compare_exchange_weak(word->next, word, std::memory_order_seq_cst,
                                          std::memory_order_relaxed)) {
  }
  return word;
}

thread_local reader_word* thread_word = nullptr;
/// Releases the word at thread exit. A word that a later destructor of the thread takes is never
/// released.
struct word_return {
  ~word_return() {
    // Release: the next owner's stores into the word then also cover the reads of this thread.
    thread_word->taken.store(false, std::memory_order_release);
    thread_word = nullptr;
  }
};

std::atomic<const timeline*>& word_of_this_thread() noexcept {
  if (thread_word == nullptr) {
    // If the host has no memory, the thread waits for the word of a thread that exits.
    while ((thread_word = take_word()) == nullptr) std::this_thread::yield();
    thread_local const word_return word_release;
    (void)word_release;
  }
  return thread_word->reads;
}

}  // namespace

hazard_pointer::hazard_pointer(const timeline& owner, const std::atomic<bool>& given_up) noexcept
    : word_(word_of_this_thread()) {
  word_.store(&owner, std::memory_order_seq_cst);
  open_ = !given_up.load(std::memory_order_seq_cst);
}

bool hazard_pointer::any(const timeline& owner) noexcept {
  for (auto* w = all_words.load(std::memory_order_seq_cst); w != nullptr; w = w->next) {
    if (w->reads.load(std::memory_order_seq_cst) == &owner) return true;
  }
  return false;
}

}  // namespace sluice::detail
