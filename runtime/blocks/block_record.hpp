// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/sync/lease.hpp"
#include "runtime/timelines/runtime_context.hpp"
#include "runtime/timelines/timeline.hpp"

#include <sluice/runtime/gpu_ref.hpp>
#include <sluice/runtime/launch_recorder.hpp>
#include <sluice/runtime/memory_resource.hpp>
#include <sluice/runtime/releasable.hpp>
#include <sluice/runtime/small_vector.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace sluice::detail {

class foreign_memory;
class runtime_core;

/// The dependency that a wait satisfies. Tests omit one kind at a time and prove that its absence
/// is detected.
enum class hazard : std::uint8_t {
  read_after_write,
  write_after_read,
  write_after_write,
  allocation_ready,  ///< the allocation of the block itself
  inherited,         ///< a use of the memory's previous block
  free_after_use,    ///< a free after a use
};

struct hazard_point {
  timeline_point point;
  hazard kind;
};

/// The points of a block's last write and of the reads since. Not thread-safe: the lock of
/// `block_record::lease` covers it.
class use_state {
 public:
  /// Begins a new block, which is ready at `ready`; the empty point means at once. `inherited` are
  /// the points of the memory's previous block.
  void begin(timeline_point ready, timeline_points&& inherited) noexcept;
  /// Begins an adopted block, which other code has written up to `last_write`. The empty point
  /// means that no work writes it any more.
  void begin_written(timeline_point last_write) noexcept;

  [[nodiscard]] timeline_point last_write() const noexcept { return last_write_; }
  /// The point of the last launch that wrote. Empty after an allocation, because earlier failures
  /// on its stream do not concern the block.
  [[nodiscard]] timeline_point last_written() const noexcept {
    return last_write_is_allocation_ ? timeline_point{} : last_write_;
  }
  /// The known outcome of the last launch that wrote. For `may_fail` its stream is queried.
  enum class outcome : std::uint8_t { may_fail, succeeds, failed };
  [[nodiscard]] outcome last_outcome() const noexcept { return last_outcome_; }
  void note_outcome(outcome result) noexcept { last_outcome_ = result; }
  [[nodiscard]] std::uint64_t version() const noexcept { return version_; }
  /// The number of points held.
  [[nodiscard]] std::size_t points() const noexcept {
    return (last_write_ ? 1 : 0) + reads_.size() + inherited_.size();
  }
  /// Appends the points that a use of this kind on stream `stream` waits for, except points of
  /// `stream`.
  /// @throws std::bad_alloc
  void collect(access_kind access, stream_id stream, small_vector<hazard_point, 16>& waits) const;
  /// Whether a use of this kind has a hazard with a use for whose point `unfinished` returns true.
  /// The allocation of the block and uses of its memory before that do not count.
  template <class Unfinished>
  [[nodiscard]] bool has_hazard(access_kind access, Unfinished unfinished) const {
    const auto last_write = last_written();
    if (last_write && unfinished(last_write)) return true;
    return access != access_kind::read && std::any_of(reads_.begin(), reads_.end(), unfinished);
  }
  /// Appends every point that a free waits for, the newest of each stream.
  /// @throws std::bad_alloc
  void collect_all(timeline_points& points) const;
  /// Drops the points for which `passed` returns true. Returns whether none is left.
  template <class Passed>
  [[nodiscard]] bool drop_if(Passed passed) noexcept {
    if (last_write_ && passed(last_write_)) last_write_ = {};
    for (auto* points : {&reads_, &inherited_}) {
      for (std::size_t i = 0; i < points->size();) {
        if (passed((*points)[i])) {
          points->swap_remove(i);
        } else {
          ++i;
        }
      }
    }
    return !last_write_ && reads_.empty() && inherited_.empty();
  }

  /// Publishes a use whose waits preflight has queued. A write clears all earlier points.
  /// `may_fail` tells whether its launch can still fail.
  ///
  /// If the host has no memory for a point, nothing changes, and the function returns that point.
  /// The caller waits for it without the lock and calls again with it as `completed_point`; see
  /// `block_record::lock_and_publish`. Returns the empty point after the publication.
  [[nodiscard]] timeline_point publish(access_kind access, timeline_point point,
                                       runtime_context& context, bool may_fail,
                                       timeline_point completed_point) noexcept;
  /// Publishes a use whose waits may not have been queued. Clears no earlier point. Returns what
  /// `publish` returns.
  [[nodiscard]] timeline_point add(access_kind access, timeline_point point,
                                   runtime_context& context, bool may_fail,
                                   timeline_point completed_point) noexcept;

 private:
  /// Keeps the newest point of each stream and drops completed ones. `completed_point` need not be
  /// kept. False if the host has no memory for `point`.
  [[nodiscard]] static bool keep(timeline_points& points, timeline_point point,
                                 runtime_context& context, timeline_point completed_point) noexcept;
  /// Replaces the last write.
  void write(timeline_point point, bool may_fail) noexcept;

  timeline_point last_write_{};
  bool last_write_is_allocation_ = false;
  outcome last_outcome_ = outcome::may_fail;
  std::uint64_t version_ = 0;
  timeline_points reads_;
  timeline_points inherited_;  // every use waits for them until the first write has been published
};

struct block_record;

/// The node that puts a block without references on the runtime's release list.
class dead_block final : public releasable {
 public:
  explicit dead_block(block_record& record) noexcept : record_(record) {}

 private:
  void release() noexcept override;  // defined with the core, which ends blocks

  block_record& record_;
};

/// One block of device memory, with all that the runtime knows of it.
///
/// The record lives in a slab that exists while a reference, a recorder or the runtime exists. It
/// is reused under a new generation. The reference count and the use state have cache lines of
/// their own, because different threads change them.
struct block_record {
  /// The record that a reference names, or nullptr.
  [[nodiscard]] static block_record* of(const block_ref& block) noexcept { return block.record_; }
  /// A reference that takes over one count of `references`.
  [[nodiscard]] block_ref ref() noexcept { return block_ref(this); }

  runtime_core* core = nullptr;  // owns the record; alive while the block or a reference exists

  // Written before other threads know the block.
  allocation memory;      // as the resource granted it
  std::size_t bytes = 0;  // as requested
  stream_ref stream;
  bool tracked = false;
  bool read_only = false;
  foreign_memory* foreign = nullptr;  // set for an import: `memory` does not belong to the resource
  std::atomic<std::uint64_t> generation{0};

  /// The number of references.
  alignas(64) std::atomic<std::uint32_t> references{0};
  /// 2 while the block lives and references exist. At 0 the record is free. Under the lock of the
  /// runtime's records.
  std::uint32_t holds = 0;
  block_record* next_unused = nullptr;
  /// Pushed by a thread that may not free the block itself.
  dead_block dead{*this};
  /// The release of `dead` has marked the lease as dying, and left the rest to a thread that may
  /// call the driver.
  bool free_begun = false;
  /// One for the block and one for each export. The thread that drops the last pin returns the
  /// memory.
  std::atomic<std::uint32_t> pins{0};

  /// Also locks `uses`.
  alignas(64) detail::lease lease;
  use_state uses;
  /// Consumers that have released the block although their uses are not in `uses`, because their
  /// streams are being captured. Until the captures end, no use of the block is allowed.
  std::uint32_t unordered_uses = 0;

  /// Locks the uses and publishes a use by `publish(passed)`, which calls `use_state::publish` or
  /// `add`. The uses stay locked.
  ///
  /// If the host has no memory for a point, waits for that point without the lock. A superfluous
  /// wait is better than a use that no later launch waits for. A commit holds the lease of the
  /// block meanwhile. Any other use counts as published when the wait has ended: until then its
  /// function has not returned, so nothing is ordered after it.
  template <class Publish>
  void lock_and_publish(runtime_context& context, Publish publish) {
    timeline_point completed_point;
    for (;;) {
      lease.lock();
      const timeline_point dropped_point = publish(completed_point);
      if (!dropped_point) return;
      lease.unlock();
      context.wait_until_complete(dropped_point);
      completed_point = dropped_point;
    }
  }

  /// Checks that the block has no such consumers. Under the lock of `uses`.
  /// @throws error `stream_misuse` if it has
  void require_ordered() const {
    if (unordered_uses == 0) return;
    throw error(
        errc::stream_misuse,
        "memory '" + std::string(memory.tag.name()) +
            "' was exported to a stream that is being captured; it cannot be used until the "
            "capture has ended");
  }
};

}  // namespace sluice::detail
