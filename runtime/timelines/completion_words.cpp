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
  if (!device_.tells_completion_by_words()) return nullptr;
  const std::lock_guard lock(mutex_);
  try {
    if (free_.empty()) add_slab();
  } catch (...) {
    return nullptr;  // events tell of the completion, too
  }
  auto* const taken_word = free_.back();
  free_.pop_back();
  taken_word->store(0, std::memory_order_relaxed);
  return taken_word;
}

void completion_words::give_back(word& unused) noexcept {
  const std::lock_guard lock(mutex_);
  free_.push_back(&unused);  // there is room for all
}

void completion_words::add_slab() {
  slabs_.reserve(slabs_.size() + 1);
  free_.reserve((slabs_.size() + 1) * words_in_slab);
  auto* const slab = static_cast<cell*>(device_.allocate_staging(words_in_slab * sizeof(cell)));
  std::uninitialized_default_construct_n(slab, words_in_slab);
  slabs_.push_back(slab);
  for (std::size_t i = 0; i < words_in_slab; ++i) free_.push_back(&slab[i].value);
}

}  // namespace sluice::detail
