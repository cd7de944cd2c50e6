// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/executor/plan_account.hpp"

#include <sluice/operations/operation.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace sluice::operations {

/// The operation and the launch key that a plan is for.
struct plan_key {
  const operation_row* row = nullptr;
  std::string bytes;            // of the launch key
  bool only_libraries = false;  // no plan: the library objects of the operation
};

/// A key whose bytes are elsewhere.
struct plan_key_view {
  const operation_row* row = nullptr;
  std::string_view bytes;
  bool only_libraries = false;
  [[nodiscard]] explicit operator plan_key() const {
    return {row, std::string(bytes), only_libraries};
  }
};

/// The order of keys, wherever their bytes are.
struct plan_key_order {
  using is_transparent = void;
  template <class A, class B>
  [[nodiscard]] bool operator()(const A& a, const B& b) const noexcept {
    return parts(a) < parts(b);
  }

 private:
  template <class Key>
  static auto parts(const Key& key) noexcept {
    return std::tuple(key.row, std::string_view(key.bytes), key.only_libraries);
  }
};

/// What came of making a plan.
struct plan_outcome {
  std::shared_ptr<const operation_plan> plan;  ///< nullptr: making it failed
  std::optional<error> failure;
};

/// The plans that were used last, bounded in bytes; the last one is kept whatever its size. Large
/// plans together take at most three quarters of the bytes, so they leave room for the others. It
/// also remembers keys that a library does not support. Not thread-safe.
class plan_cache {
 public:
  explicit plan_cache(std::size_t max_bytes) noexcept : max_bytes_(max_bytes) {}

  /// The outcome for `key`, which now counts as used last; nullptr if there is none.
  [[nodiscard]] const plan_outcome* find(const plan_key_view& key) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    auto& kept = found->second;
    auto& ages = by_age_[kept.is_large];
    ages.splice(ages.begin(), ages, kept.age);
    kept.last_use = ++uses_;
    return &kept.outcome;
  }
  /// Keeps an outcome. Drops some obsolete plans, and those whose last use is the longest ago.
  /// @throws std::bad_alloc; nothing is kept then
  void insert(plan_key key, plan_outcome outcome) {
    drop_some_obsolete();
    const auto bytes =
        entry_bytes + key.bytes.size() + (outcome.plan ? total_bytes(*outcome.plan) : 0);
    const bool is_large = bytes > max_bytes_ / 16;
    const auto [at, inserted] = by_key_.try_emplace(std::move(key));
    if (!inserted) return;
    try {
      by_age_[is_large].push_front(&at->first);
    } catch (...) {
      by_key_.erase(at);
      throw;
    }
    at->second = {std::move(outcome), bytes, is_large, ++uses_, by_age_[is_large].begin()};
    bytes_ += bytes;
    if (is_large) large_bytes_ += bytes;
    while (bytes_ > max_bytes_ && by_key_.size() > 1) erase(next_dropped());
  }
  /// Drops the plans of which no request can make use. Returns whether there was one.
  bool drop_obsolete() noexcept {
    const auto before = by_key_.size();
    erase_if(is_obsolete);
    return by_key_.size() != before;
  }
  /// The same for the next few plans, so that its time does not grow with the number of plans.
  void drop_some_obsolete() noexcept {
    for (std::size_t left = std::min(most_looked_at, by_key_.size()); left != 0; --left) {
      if (next_looked_at_ == by_key_.end()) next_looked_at_ = by_key_.begin();
      const auto here = next_looked_at_++;
      if (is_obsolete(here->second.outcome)) erase(here);
    }
  }
  /// The device memory that the plans hold, with their parts of what they share.
  [[nodiscard]] std::size_t device_bytes() const noexcept {
    std::size_t sum = 0;
    for (const auto& [key, kept] : by_key_) sum += device_bytes_of(kept.outcome);
    return sum;
  }
  /// Drops the plans that hold device memory.
  void drop_device_memory() noexcept {
    erase_if([](const auto& one) { return device_bytes_of(one) != 0; });
  }
  /// The number of plans whose launches are one graph of the device.
  [[nodiscard]] std::size_t captured() const noexcept {
    return count_of([](const operation_plan& plan) { return plan.captured(); });
  }
  /// The number of those whose launches were to be one and cannot be.
  [[nodiscard]] std::size_t not_captured() const noexcept {
    return count_of([](const operation_plan& plan) { return plan.refuses_capture(); });
  }
  [[nodiscard]] std::size_t size() const noexcept { return by_key_.size(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  static constexpr std::size_t entry_bytes = 512;  // counted for each outcome

  struct entry {
    plan_outcome outcome;
    std::size_t bytes = 0;
    bool is_large = false;
    std::uint64_t last_use = 0;
    std::list<const plan_key*>::iterator age{};
  };

  using entries = std::map<plan_key, entry, plan_key_order>;

  static constexpr std::size_t most_looked_at = 64;

  [[nodiscard]] static bool is_obsolete(const plan_outcome& outcome) noexcept {
    return outcome.plan && outcome.plan->obsolete();
  }
  [[nodiscard]] static std::size_t device_bytes_of(const plan_outcome& outcome) noexcept {
    return outcome.plan != nullptr
               ? outcome.plan->device_bytes() + outcome.plan->shared_device_bytes()
               : 0;
  }
  template <class Condition>
  [[nodiscard]] std::size_t count_of(const Condition& condition) const noexcept {
    return static_cast<std::size_t>(
        std::count_if(by_key_.begin(), by_key_.end(), [&](const auto& one) {
          const auto& plan = one.second.outcome.plan;
          return plan != nullptr && condition(*plan);
        }));
  }
  template <class Condition>
  void erase_if(const Condition& condition) noexcept {
    for (auto at = by_key_.begin(); at != by_key_.end();) {
      const auto here = at++;
      if (condition(here->second.outcome)) erase(here);
    }
  }
  /// The plan that is dropped next, of several. It is not the one that was used last.
  [[nodiscard]] entries::iterator next_dropped() noexcept {
    const auto& small = by_age_[false];
    const auto& large = by_age_[true];
    const auto oldest = [&](const auto& ages) {
      return by_key_.find(*ages.back());
    };
    if (small.empty()) return oldest(large);
    if (large.empty()) return oldest(small);
    const auto a = oldest(small);
    const auto b = oldest(large);
    const bool too_much = large_bytes_ > max_bytes_ / 4 * 3 && large.size() > 1;
    return too_much || b->second.last_use < a->second.last_use ? b : a;
  }
  void erase(entries::iterator which) noexcept {
    if (which == next_looked_at_) ++next_looked_at_;
    bytes_ -= which->second.bytes;
    if (which->second.is_large) large_bytes_ -= which->second.bytes;
    by_age_[which->second.is_large].erase(which->second.age);
    by_key_.erase(which);
  }

  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::size_t large_bytes_ = 0;
  std::uint64_t uses_ = 0;
  // Small and large plans, used last first; keys of by_key_, which do not move.
  std::array<std::list<const plan_key*>, 2> by_age_;
  entries by_key_;
  entries::iterator next_looked_at_ = by_key_.end();  // by `drop_some_obsolete`
};

}  // namespace sluice::operations
