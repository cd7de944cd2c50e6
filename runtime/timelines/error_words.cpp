// SPDX-License-Identifier: Apache-2.0
#include "runtime/timelines/error_words.hpp"

#include "runtime/devices/open_devices.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

namespace sluice::detail {

error_words::~error_words() {
  if (free_.size() == size_) {
    for (const auto& s : slabs_) device_.deallocate_staging(s.words);
    return;
  }
  // A launch of a lost device may still write a word that has not come back.
  leave_to_parent(new (std::nothrow) std::vector<slab>(std::move(slabs_)));
}

void error_words::reserve(std::size_t count) {
  std::size_t missing = 0;
  {
    const std::lock_guard lock(mutex_);
    reserved_ += count;
    missing = reserved_ - std::min(reserved_, size_);
  }
  try {
    if (missing != 0) add_slab(missing);
  } catch (...) {
    unreserve(count);
    throw;
  }
}

void error_words::unreserve(std::size_t count) noexcept {
  if (device_.inherited()) return;  // a thread of the parent may have held the lock
  const std::lock_guard lock(mutex_);
  reserved_ -= count;
}

launch_errors& error_words::take(std::shared_ptr<const error_names> names) {
  auto* errors = take_free();
  while (errors == nullptr) {
    add_slab(size());  // twice as many
    errors = take_free();
  }
  errors->names = std::move(names);
  return *errors;
}

launch_errors* error_words::take_free() noexcept {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return nullptr;
  auto* const errors = free_.back();
  free_.pop_back();
  return errors;
}

void error_words::give_back(launch_errors& unused) noexcept {
  unused.names.reset();
  // Nothing else refers to the word: its launch has completed, or has never been enqueued. The next
  // launch gets it through the mutex, and the device through that launch.
  if (unused.word->found != 0) *unused.word = {};
  const std::lock_guard lock(mutex_);
  free_.push_back(&unused);  // there is room for all
}

std::optional<error> error_words::found(const launch_errors& errors) noexcept {
  const auto& word = *errors.word;
  if (word.found == 0) return std::nullopt;
  try {
    const auto name =
        errors.names ? errors.names->name(word.step, word.operand) : std::string("indices");
    return invalid_argument(
        name, std::to_string(word.index) + " at offset " + std::to_string(word.offset) +
                  " is out of range for the extent " + std::to_string(word.extent));
  } catch (...) {
    return current_error();
  }
}

std::size_t error_words::size() const {
  const std::lock_guard lock(mutex_);
  return size_;
}

std::size_t error_words::unused() const {
  const std::lock_guard lock(mutex_);
  return free_.size();
}

void error_words::add_slab(std::size_t count) {
  count = std::max(count, least_words_in_slab);
  // Without the lock, because the driver may take long, and `give_back` is called under spin locks.
  slab fresh;
  fresh.entries = std::make_unique<launch_errors[]>(count);
  const auto free_words = [this](error_word* words) {
    device_.deallocate_staging(words);
  };
  std::unique_ptr<error_word, decltype(free_words)> memory(
      static_cast<error_word*>(device_.allocate_staging(count * sizeof(error_word))), free_words);
  std::uninitialized_value_construct_n(memory.get(), count);
  const std::lock_guard lock(mutex_);
  slabs_.reserve(slabs_.size() + 1);
  free_.reserve(size_ + count);
  fresh.words = memory.release();
  for (std::size_t i = 0; i < count; ++i) {
    fresh.entries[i].word = fresh.words + i;
    fresh.entries[i].pool = this;
    free_.push_back(&fresh.entries[i]);
  }
  size_ += count;
  slabs_.push_back(std::move(fresh));
}

}  // namespace sluice::detail
