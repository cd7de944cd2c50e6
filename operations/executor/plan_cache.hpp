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
  const launch_descriptor* descriptor = nullptr;
  std::string bytes;            // of the launch key
  bool only_libraries = false;  // no plan: the library objects of the operation
};

/// A key whose bytes are elsewhere.
struct plan_key_view {
  const launch_descriptor* descriptor = nullptr;
  std::string_view bytes;
  bool only_libraries = false;
  [[nodiscard]] explicit operator plan_key() const {
    return {descriptor, std::string(bytes), only_libraries};
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
    return std::tuple(key.descriptor, std::string_view(key.bytes), key.only_libraries);
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
///
/// No function but `insert`, which drops what does not fit any more, visits more than a bounded
/// number of plans beyond those that it drops.
class plan_cache {
 public:
  explicit plan_cache(std::size_t max_bytes) noexcept : max_bytes_(max_bytes) {}

  /// The outcome for `key`, which now counts as used last; nullptr if there is none.
  [[nodiscard]] const plan_outcome* find(const plan_key_view& key) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    auto& known = found->second;
    auto& ages = by_age_[known.is_large];
    ages.splice(ages.begin(), ages, known.age);
    known.last_use = ++uses_;
    if (!std::exchange(known.is_used, true)) used_.splice(used_.end(), unused_, known.use);
    return &known.outcome;
  }
  /// Keeps an outcome. Drops some obsolete plans, and those whose last use is the longest ago.
  /// Returns whether it has dropped one for want of room.
  /// @throws std::bad_alloc; nothing is kept then
  bool insert(plan_key key, plan_outcome outcome) {
    drop_some_obsolete();
    const auto bytes = entry_bytes + key.bytes.size() +
                       (outcome.plan ? total_bytes(*outcome.plan) : 0) +
                       (outcome.failure ? std::string_view(outcome.failure->what()).size() : 0);
    const bool is_large = bytes > max_bytes_ / 16;
    const auto [at, inserted] = by_key_.try_emplace(std::move(key));
    if (!inserted) return false;
    auto& made = at->second;
    try {
      std::list<const plan_key*> age(1, &at->first);
      std::list<entry*> use(1, &made);
      std::list<entry*> device(1, &made);
      made.age = age.begin();
      made.use = use.begin();
      made.device = device.begin();
      by_age_[is_large].splice(by_age_[is_large].begin(), age);
      used_.splice(used_.end(), use);
      without_device_.splice(without_device_.end(), device);
    } catch (...) {
      by_key_.erase(at);
      throw;
    }
    made.outcome = std::move(outcome);
    made.bytes = bytes;
    made.is_large = is_large;
    made.last_use = ++uses_;
    made.is_used = true;
    bytes_ += bytes;
    if (is_large) large_bytes_ += bytes;
    measure(made);
    recount(made);
    const auto count = by_key_.size();
    while (bytes_ > max_bytes_ && by_key_.size() > 1) erase(next_dropped());
    return by_key_.size() != count;
  }
  /// Drops plans of which no request can make use. Returns whether it has found one.
  bool drop_obsolete() noexcept {
    const auto before = by_key_.size();
    drop_some_obsolete(most_searched);
    return by_key_.size() != before;
  }
  /// The same for the next few plans.
  void drop_some_obsolete(std::size_t most = most_looked_at) noexcept {
    for (std::size_t left = std::min(most, by_key_.size()); left != 0; --left) {
      if (next_looked_at_ == by_key_.end()) next_looked_at_ = by_key_.begin();
      const auto here = next_looked_at_++;
      if (is_obsolete(here->second.outcome)) {
        erase(here);
      } else {
        measure(here->second);
      }
    }
  }
  /// The device memory that the plans hold, with their parts of what they share. Of many plans, as
  /// it was when they were measured last.
  [[nodiscard]] std::size_t device_bytes() noexcept {
    measure_some();
    return device_bytes_;
  }
  /// Drops the plans that hold device memory.
  void drop_device_memory() noexcept {
    measure_some();
    while (!with_device_.empty()) erase(*with_device_.front());
  }
  struct capture_counts {
    std::size_t captured = 0;      ///< plans whose launches are one graph of the device
    std::size_t not_captured = 0;  ///< those whose launches were to be one and cannot be
  };
  /// Of the plans that are kept. Exact unless requests wait with very many plans.
  [[nodiscard]] capture_counts captures() noexcept {
    // A plan that only the cache owns does not change.
    for (auto left = std::min(most_searched, used_.size()); left != 0; --left) {
      auto& first = *used_.front();
      const bool may_change = first.outcome.plan != nullptr && first.outcome.plan.use_count() > 1;
      recount(first);
      auto& to = may_change ? used_ : unused_;
      to.splice(to.end(), used_, first.use);
      first.is_used = may_change;
    }
    return captures_;
  }
  [[nodiscard]] std::size_t size() const noexcept { return by_key_.size(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  static constexpr std::size_t entry_bytes = 512;  // counted for each outcome

  struct entry {
    plan_outcome outcome{};
    std::size_t bytes = 0;
    std::size_t device_bytes = 0;  // when it was measured last
    bool is_captured = false;      // likewise
    bool refuses_capture = false;
    bool is_used = false;
    bool is_large = false;
    std::uint64_t last_use = 0;
    std::list<const plan_key*>::iterator age{};
    std::list<entry*>::iterator use{};
    std::list<entry*>::iterator device{};
  };

  using entries = std::map<plan_key, entry, plan_key_order>;

  static constexpr std::size_t most_looked_at = 64;
  static constexpr std::size_t most_searched = 1024;

  [[nodiscard]] static bool is_obsolete(const plan_outcome& outcome) noexcept {
    return outcome.plan && outcome.plan->obsolete();
  }
  [[nodiscard]] static std::size_t device_bytes_of(const plan_outcome& outcome) noexcept {
    return outcome.plan != nullptr
               ? outcome.plan->device_bytes() + outcome.plan->shared_device_bytes()
               : 0;
  }
  /// Plans get device memory later: when they are captured, for example.
  void measure(entry& known) noexcept {
    auto& before = known.device_bytes != 0 ? with_device_ : without_device_;
    device_bytes_ -= known.device_bytes;
    known.device_bytes = device_bytes_of(known.outcome);
    device_bytes_ += known.device_bytes;
    auto& after = known.device_bytes != 0 ? with_device_ : without_device_;
    after.splice(after.end(), before, known.device);
  }
  /// Measures a bounded number of plans, those of the last time last.
  void measure_some() noexcept {
    for (auto* const some : {&with_device_, &without_device_}) {
      for (auto left = std::min(most_searched, some->size()); left != 0 && !some->empty(); --left) {
        measure(*some->front());
      }
    }
  }
  void recount(entry& known) noexcept {
    const auto* const plan = known.outcome.plan.get();
    uncount(known);
    known.is_captured = plan != nullptr && plan->captured();
    known.refuses_capture = plan != nullptr && plan->refuses_capture();
    captures_.captured += known.is_captured ? 1 : 0;
    captures_.not_captured += known.refuses_capture ? 1 : 0;
  }
  void uncount(const entry& known) noexcept {
    captures_.captured -= known.is_captured ? 1 : 0;
    captures_.not_captured -= known.refuses_capture ? 1 : 0;
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
  void erase(const entry& dropped) noexcept { erase(by_key_.find(**dropped.age)); }
  void erase(entries::iterator which) noexcept {
    if (which == next_looked_at_) ++next_looked_at_;
    const auto& dropped = which->second;
    bytes_ -= dropped.bytes;
    device_bytes_ -= dropped.device_bytes;
    if (dropped.is_large) large_bytes_ -= dropped.bytes;
    uncount(dropped);
    by_age_[dropped.is_large].erase(dropped.age);
    (dropped.is_used ? used_ : unused_).erase(dropped.use);
    (dropped.device_bytes != 0 ? with_device_ : without_device_).erase(dropped.device);
    by_key_.erase(which);
  }

  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::size_t device_bytes_ = 0;
  std::size_t large_bytes_ = 0;
  std::uint64_t uses_ = 0;
  capture_counts captures_{};
  // Small and large plans, used last first; keys of by_key_, whose elements do not move.
  std::array<std::list<const plan_key*>, 2> by_age_;
  std::list<entry*> used_;  // found or inserted since `captures` saw that they are unused
  std::list<entry*> unused_;
  std::list<entry*> with_device_;  // when they were measured last
  std::list<entry*> without_device_;
  entries by_key_;
  entries::iterator next_looked_at_ = by_key_.end();  // by `drop_some_obsolete`
};

}  // namespace sluice::operations
