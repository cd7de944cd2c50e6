// SPDX-License-Identifier: Apache-2.0
// Uses that are published without a recorder.
#include "runtime/core/runtime_core.hpp"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

namespace sluice::detail {

error runtime_core::foreign(const block_ref& block, errc code, const std::string& text) {
  if (!block || !block.stale()) return {code, text};
  return {errc::stale_ref,
          "memory '" + std::string(block.tag().name()) + "' of another runtime has been freed"};
}

error runtime_core::freed_already(const block_ref& block, const char* function) {
  note_misuse(memory_misuse::stale_use, block_record::of(block)->memory);
  return {errc::stale_ref, std::string(function) + ": memory '" + std::string(block.tag().name()) +
                               "' has been freed"};
}

runtime_core::published_use runtime_core::publish_use(const block_ref& block, stream_ref stream,
                                                      access_kind access, timeline_point dependency,
                                                      std::uint64_t first) {
  require_own_process();
  auto& stream_timeline = require(stream);
  if (!block || block_record::of(block)->core != this) {
    throw foreign(block, errc::stream_misuse,
                  "record_use: the memory does not belong to this runtime");
  }
  auto& record = *block_record::of(block);
  if (!record.tracked)
    throw error(errc::stream_misuse, "record_use: memory '" + std::string(block.tag().name()) +
                                         "' comes from a resource that does not track uses");
  if (access != access_kind::read && record.read_only)
    throw error(errc::stream_misuse,
                "record_use: memory '" + std::string(block.tag().name()) + "' is read-only");
  if (record.lease.dying()) throw freed_already(block, "record_use");
  stream_timeline.reserve();
  const epoch_reader reader(stream_timeline.outcome_readers());
  dependency_points dependencies;
  if (dependency) dependencies.push_back(dependency);
  const timeline_point point{stream_timeline.id(),
                             stream_timeline.submit(std::move(dependencies), nullptr, first)};
  std::uint64_t version = 0;
  record.lock_and_publish(*this, [&](timeline_point completed_point) {
    if (record.lease.dying()) return timeline_point{};
    version = record.uses.version();
    return record.uses.add(access, point, *this, tasks_may_fail() || dependency, completed_point);
  });
  const bool dying = record.lease.dying();
  record.lease.unlock();
  if (dying) throw freed_already(block, "record_use");
  return {point, version};
}

void runtime_core::forget_failures_later(timeline& t) noexcept {
  if (closing()) return;
  try {
    reclaimer_.add(
        {}, {},
        [](void* owner, allocation) noexcept {
          auto& line = *static_cast<timeline*>(owner);
          line.core().forget_failures(line);
        },
        &t);
  } catch (...) {
    // The next failure requests it again.
  }
}

void runtime_core::note_outcomes(timeline& t, std::uint64_t last) noexcept {
  for (std::size_t i = 0;; ++i) {
    slab* next = nullptr;
    {
      const std::lock_guard lock(slabs_mutex_);
      if (i == slabs_.size()) break;
      next = slabs_[i].get();  // slabs are never freed
    }
    for (auto& record : *next) {
      const std::lock_guard lock(record.lease);
      // The state of an unused record changes without the lock. It stays unused until the unlock.
      if (record.lease.dying() && record.lease.held() == 0) continue;
      const auto last_write = record.uses.last_written();
      if (last_write.stream != t.id() || last_write.ticket > last) continue;
      if (record.uses.last_outcome() != use_state::outcome::may_fail) continue;
      record.uses.note_outcome(t.failure_of(last_write.ticket) ? use_state::outcome::failed
                                                               : use_state::outcome::succeeds);
    }
  }
}

void runtime_core::forget_failures(timeline& t) noexcept {
  auto& failures = t.failures();
  const std::unique_lock alone(failures.forgetting_, std::try_to_lock);
  if (!alone) return failures.forget_when_possible();
  // Tickets that other tickets depend on keep their outcomes.
  const auto before_dependencies = [&](std::uint64_t last) {
    for_each_timeline(
        [&](timeline& other) { last = std::min(last, other.oldest_dependency_on(t.id()) - 1); });
    return last;
  };
  if (failures.forget_limit_ == 0) {
    const auto last = before_dependencies(failures.forgettable(t.watermark()));
    if (last < failures.oldest_forgotten()) return;  // a dependency needs all of them
    failures.forget_limit_ = last;
    // After this, no new launch depends on one of these tickets.
    note_outcomes(t, failures.forget_limit_);
    failures.readers().begin_grace();
  }
  if (!failures.readers().grace_over()) return failures.forget_when_possible();
  const auto last = before_dependencies(std::exchange(failures.forget_limit_, 0));
  // A launch may have published its ticket since the first pass.
  note_outcomes(t, last);
  failures.forget(last);
}

}  // namespace sluice::detail
