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

/// What is made for a key.
enum class plan_part : std::uint8_t {
  plan,
  libraries,  ///< no plan: the library objects of the operation
  batches,    ///< the next size of batches of the plan; see `batch_growth`
};

/// The operation and the launch key that a plan is for.
struct plan_key {
  const launch_descriptor* descriptor = nullptr;
  std::string bytes;  // of the launch key
  plan_part part = plan_part::plan;
};

/// A key whose bytes are elsewhere.
struct plan_key_view {
  const launch_descriptor* descriptor = nullptr;
  std::string_view bytes;
  plan_part part = plan_part::plan;
  [[nodiscard]] explicit operator plan_key() const {
    return {descriptor, std::string(bytes), part};
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
    return std::tuple(key.descriptor, std::string_view(key.bytes), key.part);
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
/// No function but `insert` and `recount`, which drop what does not fit any more, visits more than
/// a bounded number of plans beyond those that it drops.
class plan_cache {
 public:
  explicit plan_cache(std::size_t max_bytes) noexcept : max_bytes_(max_bytes) {}

  /// The outcome for `key`, which now counts as used last; nullptr if there is none.
  [[nodiscard]] const plan_outcome* find(const plan_key_view& key) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    auto& record = found->second;
    auto& ages = by_age_[record.is_large];
    ages.splice(ages.begin(), ages, record.age_position);
    record.last_use = ++uses_;
    if (!std::exchange(record.is_used, true))
      used_records_.splice(used_records_.end(), unused_records_, record.use_position);
    return &record.outcome;
  }
  /// Keeps an outcome. Drops some obsolete plans, and those whose last use is the longest ago.
  /// Returns whether it has dropped one to make room.
  /// @throws std::bad_alloc; nothing is kept then
  bool insert(plan_key key, plan_outcome outcome) {
    drop_some_obsolete();
    const auto bytes = bytes_of(key, outcome);
    const bool is_large = is_large_entry(bytes);
    const auto [position, is_new] = by_key_.try_emplace(std::move(key));
    if (!is_new) return false;
    auto& record = position->second;
    try {
      std::list<const plan_key*> age(1, &position->first);
      std::list<entry*> use(1, &record);
      std::list<entry*> device(1, &record);
      record.age_position = age.begin();
      record.use_position = use.begin();
      record.device_position = device.begin();
      by_age_[is_large].splice(by_age_[is_large].begin(), age);
      used_records_.splice(used_records_.end(), use);
      host_records_.splice(host_records_.end(), device);
    } catch (...) {
      by_key_.erase(position);
      throw;
    }
    record.outcome = std::move(outcome);
    record.bytes = bytes;
    record.is_large = is_large;
    record.last_use = ++uses_;
    record.is_used = true;
    bytes_ += bytes;
    if (is_large) large_bytes_ += bytes;
    measure(record);
    recount(record);
    return drop_excess();
  }
  /// Counts `plan` anew, which has grown and now counts as used last, if it is kept for `key`.
  /// Returns whether it has dropped another one to make room.
  bool recount(const plan_key& key, const operation_plan& plan) noexcept {
    const auto found = by_key_.find(key);
    if (found == by_key_.end() || found->second.outcome.plan.get() != &plan) return false;
    auto& record = found->second;
    const auto bytes = bytes_of(found->first, record.outcome);
    const bool is_large = is_large_entry(bytes);
    auto& ages = by_age_[is_large];
    ages.splice(ages.begin(), by_age_[record.is_large], record.age_position);
    record.last_use = ++uses_;
    bytes_ += bytes - record.bytes;
    if (record.is_large) large_bytes_ -= record.bytes;
    if (is_large) large_bytes_ += bytes;
    record.bytes = bytes;
    record.is_large = is_large;
    measure(record);
    return drop_excess();
  }
  /// Drops plans of which no request can make use. Returns whether it has found one.
  bool drop_obsolete() noexcept {
    const auto count = by_key_.size();
    drop_some_obsolete(max_searched);
    return by_key_.size() != count;
  }
  /// The same for the next few plans.
  void drop_some_obsolete(std::size_t max_visits = max_examined) noexcept {
    for (auto visits = std::min(max_visits, by_key_.size()); visits != 0; --visits) {
      if (next_examined_ == by_key_.end()) next_examined_ = by_key_.begin();
      const auto position = next_examined_++;
      if (is_obsolete(position->second.outcome)) {
        erase(position);
      } else {
        measure(position->second);
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
    while (!device_records_.empty()) erase(*device_records_.front());
  }
  struct capture_counts {
    std::size_t captured = 0;      ///< plans whose launches are one graph of the device
    std::size_t not_captured = 0;  ///< those whose launches were to be one and cannot be
  };
  /// Of the plans that are kept. Exact unless requests wait with very many plans.
  [[nodiscard]] capture_counts captures() noexcept {
    // A plan that only the cache owns does not change.
    for (auto visits = std::min(max_searched, used_records_.size()); visits != 0; --visits) {
      auto& first = *used_records_.front();
      const bool may_change = first.outcome.plan != nullptr && first.outcome.plan.use_count() > 1;
      recount(first);
      auto& list = may_change ? used_records_ : unused_records_;
      list.splice(list.end(), used_records_, first.use_position);
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
    std::list<const plan_key*>::iterator age_position{};
    std::list<entry*>::iterator use_position{};
    std::list<entry*>::iterator device_position{};
  };

  using entries = std::map<plan_key, entry, plan_key_order>;

  static constexpr std::size_t max_examined = 64;
  static constexpr std::size_t max_searched = 1024;

  template <class Key>
  [[nodiscard]] static std::size_t bytes_of(const Key& key, const plan_outcome& outcome) noexcept {
    return entry_bytes + key.bytes.size() + (outcome.plan ? total_bytes(*outcome.plan) : 0) +
           (outcome.failure ? std::string_view(outcome.failure->what()).size() : 0);
  }
  [[nodiscard]] bool is_large_entry(std::size_t bytes) const noexcept {
    return bytes > max_bytes_ / 16;
  }
  /// Drops plans until the others fit. Returns whether it has dropped one.
  bool drop_excess() noexcept {
    const auto count = by_key_.size();
    while (bytes_ > max_bytes_ && by_key_.size() > 1) erase(next_dropped());
    return by_key_.size() != count;
  }
  [[nodiscard]] static bool is_obsolete(const plan_outcome& outcome) noexcept {
    return outcome.plan && outcome.plan->obsolete();
  }
  [[nodiscard]] static std::size_t device_bytes_of(const plan_outcome& outcome) noexcept {
    return outcome.plan != nullptr
               ? outcome.plan->device_bytes() + outcome.plan->shared_device_bytes()
               : 0;
  }
  /// Plans get device memory later: when they are captured, for example.
  void measure(entry& record) noexcept {
    auto& old_list = record.device_bytes != 0 ? device_records_ : host_records_;
    device_bytes_ -= record.device_bytes;
    record.device_bytes = device_bytes_of(record.outcome);
    device_bytes_ += record.device_bytes;
    auto& new_list = record.device_bytes != 0 ? device_records_ : host_records_;
    new_list.splice(new_list.end(), old_list, record.device_position);
  }
  /// Measures a bounded number of plans, those of the last time last.
  void measure_some() noexcept {
    for (auto* const list : {&device_records_, &host_records_}) {
      for (auto visits = std::min(max_searched, list->size()); visits != 0 && !list->empty();
           --visits) {
        measure(*list->front());
      }
    }
  }
  void recount(entry& record) noexcept {
    const auto* const plan = record.outcome.plan.get();
    uncount(record);
    record.is_captured = plan != nullptr && plan->captured();
    record.refuses_capture = plan != nullptr && plan->refuses_capture();
    captures_.captured += record.is_captured ? 1 : 0;
    captures_.not_captured += record.refuses_capture ? 1 : 0;
  }
  void uncount(const entry& record) noexcept {
    captures_.captured -= record.is_captured ? 1 : 0;
    captures_.not_captured -= record.refuses_capture ? 1 : 0;
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
  void erase(const entry& record) noexcept { erase(by_key_.find(**record.age_position)); }
  void erase(entries::iterator position) noexcept {
    if (position == next_examined_) ++next_examined_;
    const auto& record = position->second;
    bytes_ -= record.bytes;
    device_bytes_ -= record.device_bytes;
    if (record.is_large) large_bytes_ -= record.bytes;
    uncount(record);
    by_age_[record.is_large].erase(record.age_position);
    (record.is_used ? used_records_ : unused_records_).erase(record.use_position);
    (record.device_bytes != 0 ? device_records_ : host_records_).erase(record.device_position);
    by_key_.erase(position);
  }

  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::size_t device_bytes_ = 0;
  std::size_t large_bytes_ = 0;
  std::uint64_t uses_ = 0;
  capture_counts captures_{};
  // Small and large plans, used last first; keys of by_key_, whose elements do not move.
  std::array<std::list<const plan_key*>, 2> by_age_;
  std::list<entry*> used_records_;  // found or inserted since `captures` saw that they are unused
  std::list<entry*> unused_records_;
  std::list<entry*> device_records_;  // when they were measured last
  std::list<entry*> host_records_;
  entries by_key_;
  entries::iterator next_examined_ = by_key_.end();  // by `drop_some_obsolete`
};

}  // namespace sluice::operations
