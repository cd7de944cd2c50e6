// SPDX-License-Identifier: Apache-2.0
#include "operations/models/program_cache.hpp"

#include <algorithm>
#include <utility>

namespace sluice::detail {

program_cache::entries& program_cache::list_of(const entry& each) noexcept {
  if (!each.outcome) return each.has_begun ? begun_ : waiting_;
  if (!each.outcome->failure) return each.outcome->is_for_results() ? results_ : programs_;
  return each.outcome->unbound_inputs.empty() ? failures_ : unbound_;
}

std::size_t program_cache::limit_of(const entries& list) const noexcept {
  // A model that binds its inputs one after the other needs several for each program.
  constexpr std::size_t least_unbound = 16;
  constexpr std::size_t least_results = 1024;
  if (&list == &results_) return std::max(most_, least_results);
  return &list == &unbound_ ? std::max(most_, least_unbound) : most_;
}

std::shared_ptr<program_cache::entry> program_cache::find(const program_key& key) noexcept {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  const auto& place = found->second;
  auto& list = list_of(**place);
  if ((*place)->outcome) list.splice(list.begin(), list, place);
  return *place;
}

std::shared_ptr<program_cache::entry> program_cache::add(const program_key& key) {
  auto added = std::make_shared<entry>(key.copy());
  entries node{added};
  by_key_.emplace(added->key, node.begin());
  waiting_.splice(waiting_.end(), node);
  return added;
}

std::shared_ptr<program_cache::entry> program_cache::begin_next() noexcept {
  if (waiting_.empty()) return nullptr;
  begun_.splice(begun_.end(), waiting_, waiting_.begin());
  begun_.back()->has_begun = true;
  return begun_.back();
}

void program_cache::drop_unless_awaited(const entry& unused) noexcept {
  if (!unused.has_begun && unused.waiting.empty()) drop(unused.key);
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
  if (!outcome.is_final()) {
    drop(ended.key);
    ended.outcome = std::move(outcome);
    return;
  }
  const auto place = by_key_.find(ended.key)->second;
  auto& attempts = list_of(ended);
  ended.outcome = std::move(outcome);
  auto& list = list_of(ended);
  list.splice(list.begin(), attempts, place);
  if (list.size() > limit_of(list)) drop(list.back()->key);
}

}  // namespace sluice::detail
