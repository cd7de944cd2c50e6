// SPDX-License-Identifier: Apache-2.0
#include "runtime/timelines/completion_words.hpp"

#include <memory>

namespace sluice::detail {

completion_words::~completion_words() {
  // A stream whose word has not come back may still write it.
  if (free_.size() != slabs_.size() * words_in_slab) return;
  for (auto* const slab : slabs_) device_.deallocate_staging(slab);
}

completion_words::word* completion_words::take() noexcept {
  if (refused() || !device_.tells_completion_by_words()) return nullptr;
  for (;;) {
    if (auto* const free_word = take_free()) return free_word;
    try {
      add_slab();
    } catch (...) {
      return nullptr;  // events tell of the completion, too
    }
  }
}

completion_words::word* completion_words::take_free() noexcept {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return nullptr;
  auto* const free_word = free_.back();
  free_.pop_back();
  free_word->store(0, std::memory_order_relaxed);
  return free_word;
}

void completion_words::give_back(word& unused) noexcept {
  const std::lock_guard lock(mutex_);
  free_.push_back(&unused);  // there is room for all
}

void completion_words::add_slab() {
  // Without the lock, because the driver may take long, and `give_back` is called under spin locks.
  const auto free_slab = [this](cell* slab) {
    device_.deallocate_staging(slab);
  };
  std::unique_ptr<cell, decltype(free_slab)> memory(
      static_cast<cell*>(device_.allocate_staging(words_in_slab * sizeof(cell))), free_slab);
  std::uninitialized_default_construct_n(memory.get(), words_in_slab);
  const std::lock_guard lock(mutex_);
  slabs_.reserve(slabs_.size() + 1);
  free_.reserve((slabs_.size() + 1) * words_in_slab);
  auto* const slab = memory.release();
  slabs_.push_back(slab);
  for (std::size_t i = 0; i < words_in_slab; ++i) free_.push_back(&slab[i].value);
}

}  // namespace sluice::detail
