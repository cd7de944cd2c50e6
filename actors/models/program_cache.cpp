// SPDX-License-Identifier: Apache-2.0
#include "actors/models/program_cache.hpp"

#include <utility>

namespace sluice::detail {

std::shared_ptr<program_cache::entry> program_cache::find(const program_key& key) noexcept {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  auto& list = list_of(**found->second);
  list.splice(list.begin(), list, found->second);
  return *found->second;
}

std::shared_ptr<program_cache::entry> program_cache::add(const program_key& key) {
  auto added = std::make_shared<entry>(key.copy());
  entries node{added};
  by_key_.emplace(added->key, node.begin());
  attempts_.splice(attempts_.begin(), node);
  return added;
}

void program_cache::drop(const program_key& key) noexcept {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return;
  const auto place = found->second;
  auto& list = list_of(**place);
  by_key_.erase(found);
  list.erase(place);
}

void program_cache::finish(entry& ended, program_outcome&& outcome) noexcept {
  const auto found = by_key_.find(ended.key);
  if (!outcome.is_final()) {
    drop(ended.key);
    ended.outcome = std::move(outcome);
    return;
  }
  ended.outcome = std::move(outcome);
  auto& list = list_of(ended);
  list.splice(list.begin(), attempts_, found->second);
  if (list.size() > most_) drop(list.back()->key);
}

}  // namespace sluice::detail
