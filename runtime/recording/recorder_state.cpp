// SPDX-License-Identifier: Apache-2.0
#include "runtime/recording/recorder_state.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace sluice::detail {

void recorder_state::begin(timeline& stream, recorder_mode mode) {
  if (!stream.hold_core()) shared_core_ = stream.core().shared_from_this();
  core_ = &stream.core();
  stream_ = &stream;
  mode_ = mode;
  leases_.begin(*core_, uses_);
  phase_ = phase::recording;
}

std::shared_ptr<runtime_core> recorder_state::end() noexcept {
  abandon();
  report_misuse();
  uses_.clear();
  uses_.shrink(max_kept);
  waits_.clear();
  if (waits_.capacity() > max_kept) waits_ = {};
  forget_dependencies();
  if (dependencies_.capacity() > max_kept) dependencies_ = {};
  if (outcomes_.capacity() > max_kept) outcomes_ = {};
  joint_launches_.clear();
  joint_uses_.clear();
  joint_dependencies_.clear();
  long_dependencies_.clear();
  if (joint_uses_.capacity() > max_kept) {
    joint_launches_ = {};
    joint_uses_ = {};
    joint_dependencies_ = {};
    long_dependencies_ = {};
  }
  refused_record_ = nullptr;
  upstream_.reset();
  looks_for_unfinished_ = follows_unfinished_ = false;
  errors_ = nullptr;
  joint_launches_find_errors_ = false;
  rejection_.reset();
  auto* const held_stream = std::exchange(stream_, nullptr);
  if (held_stream == nullptr || shared_core_) return std::move(shared_core_);
  return held_stream->let_go_of_core();  // last: the core may be destroyed afterwards
}

void recorder_state::note(const block_ref& block, access_kind access, bool whole, const char* verb,
                          bool read_only) noexcept {
  auto* const record = block_record::of(block);
  if (!open() || record == nullptr || record->core != core_ || !record->tracked ||
      (read_only && access != access_kind::read)) {
    refuse(block, access, verb, read_only);
    return;
  }
  try {
    uses_.add({record, record->generation.load(std::memory_order_relaxed), access, whole,
               record->memory.tag, 0});
    if (!joint_launches_.empty()) {
      joint_uses_.push_back(
          {record, record->generation.load(std::memory_order_relaxed), access, whole, 0});
    }
  } catch (...) {
    if (!rejection_) rejection_ = current_error();
  }
}

// Apart from `note`, so that a launch does not pay for its texts.
void recorder_state::refuse(const block_ref& block, access_kind access, const char* verb,
                            bool read_only) noexcept {
  if (auto* const record = block_record::of(block); record != nullptr && open() && !rejection_) {
    refused_record_ = record;
    refused_generation_ = record->generation.load(std::memory_order_relaxed);
  }
  try {
    if (!open()) {
      reject(verb, "called after preflight, which freezes the uses of the launch");
    } else if (read_only && access != access_kind::read) {
      reject(verb, "memory '" + std::string(block.tag().name()) + "' is read-only");
    } else if (!block) {
      if (mode_ == recorder_mode::strict) {
        reject(verb,
               "the reference is empty, or the memory has no runtime identity; a permissive "
               "recorder skips such memory, and the caller orders it");
      }
    } else if (block_record::of(block)->core != core_) {
      if (!rejection_) {
        rejection_ = runtime_core::foreign(block, errc::stream_misuse,
                                           std::string("launch_recorder::") + verb +
                                               ": the memory belongs to another runtime than the "
                                               "launch stream");
      }
    } else {
      reject(verb, "memory '" + std::string(block.tag().name()) +
                       "' comes from a resource that does not track uses");
    }
  } catch (...) {
    if (!rejection_) rejection_ = current_error();
  }
}

bool recorder_state::preflight(bool waits) {
  if (rejection_) {
    if (open()) phase_ = phase::refused;
    throw *rejection_;
  }
  if (!open())
    throw error(errc::stream_misuse, "launch_recorder::preflight: already called on this recorder");
  if (uses_.empty()) {
    phase_ = phase::preflighted;
    return true;
  }
  const auto previous = std::exchange(phase_, phase::refused);  // until preflight has succeeded
  core_->require_open();
  (void)core_->require(stream_->ref());
  // Checked again under the leases. A freed block and the block that reuses its record cannot both
  // be leased, so it is checked here, too.
  for (const auto& u : uses_) {
    if (u.stale()) throw stale_error(u);
  }
  uses_.sort();
  stream_->reserve(launches());
  try {
    if (!leases_.take(waits)) {
      stream_->unreserve(launches());
      phase_ = previous;
      return false;
    }
    try {
      leases_.at(launch_step::leased);
      fence();
      if (!joint_launches_.empty()) relate_joint_launches();
      leases_.at(launch_step::fenced);
    } catch (...) {
      forget_dependencies();
      leases_.give_all();
      throw;
    }
  } catch (const stale_block& freed) {
    stream_->unreserve(launches());
    throw stale_error(freed.use);
  } catch (...) {
    stream_->unreserve(launches());
    throw;
  }
  first_ticket_ = stream_->newest().ticket + 1;
  phase_ = phase::preflighted;
  return true;
}

void recorder_state::cancel() noexcept {
  if (open()) phase_ = phase::cancelled;
  if (phase_ != phase::preflighted) return;
  phase_ = phase::cancelled;
  if (uses_.empty()) return;
  if (core_->device().inherited()) {
    leases_.all_given();
    return;
  }
  forget_dependencies();
  upstream_.reset();
  stream_->unreserve(launches());
  leases_.give_all();
}

timeline_point recorder_state::commit(const std::optional<error>& failure) {
  if (phase_ == phase::committed) {
    throw error(errc::stream_misuse, "launch_recorder::commit: already called on this recorder");
  }
  const auto previous = std::exchange(phase_, phase::committed);
  timeline_point point;
  if (!uses_.empty()) {
    if (core_->device().inherited()) {
      if (previous == phase::preflighted) leases_.all_given();
      core_->device().require_usable();
    }
    if (previous == phase::preflighted) {
      point = publish(failure);
    } else {
      publish_unfenced(failure);
      if (rejection_) throw *rejection_;
      throw error(errc::stream_misuse,
                  "launch_recorder::commit: called without a successful preflight; the launch was "
                  "published, but it is not ordered after earlier uses");
    }
  }
  if (rejection_) throw *rejection_;
  return point;
}

void recorder_state::reject(const char* verb, const std::string& reason) {
  if (!rejection_) {
    rejection_.emplace(errc::stream_misuse,
                       std::string("launch_recorder::") + verb + ": " + reason);
  }
}

void recorder_state::report_misuse() noexcept {
  const auto misused = std::exchange(misused_, std::nullopt);
  if (!misused || core_->device().inherited()) return;
  core_->note_misuse(memory_misuse::stale_use, *misused);
}

error recorder_state::stale_error(const recorded_use& u) {
  refused_record_ = u.record;
  refused_generation_ = u.generation;
  // No reference keeps the block, so another one may use its record by now.
  misused_ = allocation{.tag = u.tag, .generation = u.generation};
  const auto& thread = lease_holder::of_this_thread();
  if (!thread.holds_any() && !thread.in_turnstile()) report_misuse();
  return {errc::stale_ref,
          "memory '" + std::string(u.tag.name()) + "', which the launch uses, has been freed"};
}

void recorder_state::read_outcomes_of(timeline& source) {
  for (const auto& entry : outcomes_) {
    if (entry.source == &source) return;
  }
  outcomes_.push_back({&source, 0});
  outcomes_.back().epoch = source.outcome_readers().enter();
}

void recorder_state::stop_reading_outcomes() noexcept {
  for (const auto& entry : outcomes_) entry.source->outcome_readers().leave(entry.epoch);
  outcomes_.clear();
}

void recorder_state::forget_dependencies() noexcept {
  dependencies_.clear();
  stop_reading_outcomes();
}

void recorder_state::fence() {
  waits_.clear();
  read_outcomes_of(*stream_);
  follows_unfinished_ = false;
  for (auto& u : uses_) {
    if (u.record->generation.load(std::memory_order_relaxed) != u.generation) throw stale_block{u};
    const std::lock_guard lock(u.record->lease);
    refused_record_ = u.record;
    refused_generation_ = u.generation;
    u.record->require_ordered();
    if (u.access != access_kind::write || !u.whole) {
      if (const auto last_write = core_->dependency_on(*u.record)) {
        read_outcomes_of(*core_->find(last_write.stream));
        dependencies_.push_back(last_write);
        u.last_write = last_write;
      }
    }
    refused_record_ = nullptr;
    u.record->uses.collect(u.access, stream_->id(), waits_);
    if (looks_for_unfinished_ && !follows_unfinished_) {
      follows_unfinished_ = u.record->uses.has_hazard(u.access, [&](timeline_point point) {
        const auto* const source = core_->find(point.stream);
        return source != nullptr && source->is_beside(*stream_) &&
               !source->seems_completed(point.ticket);
      });
    }
    u.fence_version = u.record->uses.version();
  }
  if (dependencies_.size() > 8) {
    // Several blocks written by one launch yield the same point.
    std::sort(dependencies_.begin(), dependencies_.end(), [](timeline_point a, timeline_point b) {
      return a.stream != b.stream ? a.stream < b.stream : a.ticket < b.ticket;
    });
    const auto* const end = std::unique(dependencies_.begin(), dependencies_.end());
    dependencies_.truncate(static_cast<std::size_t>(end - dependencies_.begin()));
  }
  core_->fence(*stream_, waits_.view());
}

timeline_point recorder_state::publish(const std::optional<error>& failure) {
  timeline_point point;
  std::optional<error> lost;
  leases_.at(launch_step::enqueued);
  const bool may_fail = core_->tasks_may_fail() || failure || !dependencies_.empty() ||
                        upstream_ != nullptr || errors_ != nullptr;
  try {
    point = {stream_->id(),
             stream_->submit(std::move(dependencies_), failure ? &*failure : nullptr, first_ticket_,
                             std::move(upstream_), errors_ != nullptr ? errors_->get() : nullptr)};
    if (errors_ != nullptr) errors_->release();
  } catch (...) {
    lost = current_error();
    point = stand_in(*lost);
  }
  leases_.at(launch_step::submitted);
  for (const auto& u : uses_) {
    auto& state = u.record->uses;
    u.record->lock_and_publish(*core_, [&](timeline_point completed_point) {
      if (!point) return timeline_point{};
      // A use published without a lease since preflight was not waited for, so nothing may be
      // cleared.
      return state.version() == u.fence_version
                 ? state.publish(u.access, point, *core_, may_fail, completed_point)
                 : state.add(u.access, point, *core_, may_fail, completed_point);
    });
    leases_.unlock_and_give(u);
    leases_.at(launch_step::published);
  }
  stop_reading_outcomes();
  leases_.all_given();
  if (lost) throw *lost;
  return point;
}

void recorder_state::publish_unfenced(const std::optional<error>& failure) {
  const epoch_reader reader(stream_->outcome_readers());
  timeline_point point;
  try {
    stream_->reserve();
    point = {stream_->id(), stream_->submit({}, failure ? &*failure : nullptr)};
  } catch (...) {
    const auto cause = current_error();
    point = stand_in(cause);
    if (!point) throw cause;
  }
  uses_.sort();
  for (const auto& u : uses_) {
    u.record->lock_and_publish(*core_, [&](timeline_point completed_point) {
      return u.stale() ? timeline_point{}
                       : u.record->uses.add(u.access, point, *core_, true, completed_point);
    });
    u.record->lease.unlock();
  }
}

timeline_point recorder_state::stand_in(const error& cause) noexcept {
  // The last ticket of a retired stream follows all of its work.
  if (stream_->retired()) return stream_->newest();
  // Work on a captured stream is not queued, so it needs no wait.
  if (stream_->captured()) return {};
  try {
    stream_->synchronize();
  } catch (...) {
    core_->device().lose(cause);
  }
  return {};
}

void recorder_state::abandon() noexcept {
  if (uses_.empty()) return;
  if (core_->device().inherited()) {
    if (phase_ == phase::preflighted) leases_.all_given();
    return;
  }
  try {
    if (phase_ == phase::preflighted) {
      core_->count_abandoned();
      report(
          "a launch recorder was destroyed between preflight and commit; the launch was "
          "published");
      if (launches() > 1) stream_->unreserve(launches() - 1);
      (void)publish(std::nullopt);
    } else if (phase_ == phase::recording) {
      core_->count_abandoned();
      report("a launch recorder was destroyed before preflight; nothing was published");
    }
  } catch (const error& e) {
    report(e.what());
  }
}

}  // namespace sluice::detail
