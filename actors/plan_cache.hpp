// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <utility>

namespace sluice::actors {

/// Keeps the plans that were used last, by key, at most `capacity` of them; a new one pushes out
/// the one whose last use is the longest ago. A plan that is pushed out lives on for those who hold
/// it: whatever was queued with it has to.
///
/// Belongs to one lane; not thread-safe. `Key` is ordered by `<`.
template <class Key, class Plan>
class plan_cache {
 public:
  using plan_ptr = std::shared_ptr<const Plan>;

  /// @param capacity at least 1
  explicit plan_cache(std::size_t capacity) : capacity_(capacity == 0 ? 1 : capacity) {}
  plan_cache(const plan_cache&) = delete;
  plan_cache& operator=(const plan_cache&) = delete;

  /// The plan of `key`, which now counts as used last; null when there is none.
  [[nodiscard]] plan_ptr find(const Key& key) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    by_age_.splice(by_age_.begin(), by_age_, found->second);
    return found->second->plan;
  }

  /// Keeps `plan` for `key`, in place of one that is there already.
  void insert(const Key& key, plan_ptr plan) {
    if (const auto found = by_key_.find(key); found != by_key_.end()) {
      found->second->plan = std::move(plan);
      by_age_.splice(by_age_.begin(), by_age_, found->second);
      return;
    }
    by_age_.push_front(entry{nullptr, std::move(plan)});
    try {
      const auto [position, inserted] = by_key_.emplace(key, by_age_.begin());
      by_age_.front().key = &position->first;
    } catch (...) {
      by_age_.pop_front();
      throw;
    }
    if (by_age_.size() > capacity_) {
      by_key_.erase(by_key_.find(*by_age_.back().key));
      by_age_.pop_back();
    }
  }

  /// The plan of `key`: the one that is there, else what `make()` returns. Nothing changes when
  /// `make` throws.
  template <class Make>
  [[nodiscard]] plan_ptr find_or_make(const Key& key, Make&& make) {
    if (plan_ptr found = find(key)) return found;
    plan_ptr made = std::forward<Make>(make)();
    insert(key, made);
    return made;
  }

  [[nodiscard]] std::size_t size() const noexcept { return by_age_.size(); }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

 private:
  struct entry {
    const Key* key;  // points into by_key_, whose nodes do not move
    plan_ptr plan;
  };

  std::size_t capacity_;
  std::list<entry> by_age_;  // used last first
  std::map<Key, typename std::list<entry>::iterator> by_key_;
};

}  // namespace sluice::actors
