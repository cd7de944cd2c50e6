// SPDX-License-Identifier: Apache-2.0
#include "operations/core/algorithm_choices.hpp"

#include <cstring>
#include <vector>

namespace sluice::operations {

algorithm_choices& algorithm_choices::of_process() {
  static auto* const choices = new algorithm_choices(disk_cache::of_user("algorithms"));
  return *choices;  // never destroyed: a planner may outlive static objects
}

std::optional<std::uint32_t> algorithm_choices::find(const std::string& subject) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = choices_.find(subject);
    if (found != choices_.end()) return found->second;
    if (choices_.size() == max_choices) return 0;
  }
  // The disk is read without the lock, so two threads may do so.
  const auto bytes = files_.find(subject);
  std::uint32_t choice = 0;
  if (!bytes || bytes->size() != sizeof choice) return std::nullopt;
  std::memcpy(&choice, bytes->data(), sizeof choice);
  return insert(subject, choice);
}

std::uint32_t algorithm_choices::keep(const std::string& subject, std::uint32_t choice,
                                      bool is_measured) {
  const auto kept = insert(subject, choice);
  if (is_measured && kept == choice) {
    std::vector<char> bytes(sizeof choice);
    std::memcpy(bytes.data(), &choice, sizeof choice);
    files_.keep(subject, bytes);
  }
  return kept;
}

std::uint32_t algorithm_choices::insert(const std::string& subject, std::uint32_t choice) {
  const std::lock_guard lock(mutex_);
  if (choices_.size() < max_choices) return choices_.try_emplace(subject, choice).first->second;
  const auto found = choices_.find(subject);
  return found == choices_.end() ? 0 : found->second;
}

}  // namespace sluice::operations
