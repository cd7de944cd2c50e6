// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/sync/lease.hpp"
#include "runtime/timelines/timeline.hpp"

#include <sluice/runtime/gpu_ref.hpp>
#include <sluice/runtime/launch_recorder.hpp>
#include <sluice/runtime/memory_resource.hpp>
#include <sluice/runtime/releasable.hpp>
#include <sluice/runtime/small_vector.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace sluice::detail {

class foreign_memory;
class runtime_context;
class runtime_core;

/// Which earlier use a wait is for. Tests leave one class out to prove that the others' absence
/// would be seen.
enum class hazard : std::uint8_t {
  read_after_write,
  write_after_read,
  write_after_write,
  allocation_ready,  ///< the memory's own allocation has not been reached on its stream
  inherited,         ///< a use before the address was given out again
  free_after_use,    ///< a free that follows a use
};

struct hazard_point {
  timeline_point point;
  hazard kind;
};

/// When a block was last written, and read since, as points. Not thread-safe: the lock in
/// `block_record::lease` covers it.
class use_state {
 public:
  /// The state of a block that becomes ready at `ready` (the empty point: at once), where lay what
  /// `inherited` may still be using.
  void begin(timeline_point ready, timeline_points&& inherited) noexcept;
  /// The state of a block that somebody else has written up to `written` (the empty point: nobody
  /// writes it any more).
  void begin_written(timeline_point written) noexcept;

  [[nodiscard]] timeline_point last_write() const noexcept { return last_write_; }
  /// The last launch that wrote; an allocation is none, and the launches before it on its stream
  /// have failed for others.
  [[nodiscard]] timeline_point last_written() const noexcept {
    return last_write_is_allocation_ ? timeline_point{} : last_write_;
  }
  /// What is known of the last launch that wrote. One that may fail is asked about on its stream.
  enum class outcome : std::uint8_t { may_fail, succeeds, failed };
  [[nodiscard]] outcome last_outcome() const noexcept { return last_outcome_; }
  void note_outcome(outcome known) noexcept { last_outcome_ = known; }
  [[nodiscard]] std::uint64_t version() const noexcept { return version_; }
  /// How many points it holds.
  [[nodiscard]] std::size_t points() const noexcept {
    return (last_write_ ? 1 : 0) + reads_.size() + inherited_.size();
  }
  /// Appends what a use of this kind on stream `on` has to wait for, without points of `on` itself.
  /// @throws std::bad_alloc
  void collect(access_kind access, stream_id on, small_vector<hazard_point, 16>& waits) const;
  /// Every point that a free has to wait for, the newest of each stream. @throws std::bad_alloc
  void collect_all(timeline_points& points) const;
  /// Drops the points for which `passed` answers true. Whether none is left.
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

  /// Publishes a use that was fenced by a preflight: a write stands for everything before it.
  /// `may_fail`: whether its launch can still fail.
  void publish(access_kind access, timeline_point point, runtime_context& context,
               bool may_fail = true) noexcept;
  /// Publishes a use that may not have been fenced: adds, clears nothing.
  void add(access_kind access, timeline_point point, runtime_context& context,
           bool may_fail = true) noexcept;

 private:
  /// Keeps the newest point per stream and drops completed ones. Without memory for another one,
  /// waits for a point.
  static void keep(timeline_points& points, timeline_point point,
                   runtime_context& context) noexcept;

  timeline_point last_write_{};
  bool last_write_is_allocation_ = false;
  outcome last_outcome_ = outcome::may_fail;
  std::uint64_t version_ = 0;
  timeline_points reads_;
  timeline_points inherited_;  // waited for by any use until the first write has been published
};

struct block_record;

/// Links a block whose last handle is gone into the runtime's release list.
class dead_block final : public releasable {
 public:
  explicit dead_block(block_record& record) noexcept : record_(record) {}

 private:
  void release() noexcept override;  // defined by the core, which ends blocks

  block_record& record_;
};

/// One block of device memory and everything the runtime knows of it. Lives in a slab that is never
/// unmapped while a reference, a recorder or the runtime exists; used again under a new generation.
/// Counts and use state, which different threads change, are on cache lines of their own.
struct block_record {
  /// The record that a reference names; nullptr for none.
  [[nodiscard]] static block_record* of(const block_ref& block) noexcept { return block.record_; }
  /// A reference that takes over one count of `references`.
  [[nodiscard]] block_ref ref() noexcept { return block_ref(this); }

  runtime_core* core = nullptr;  // whose record it is: alive while the block or handles exist

  // Written while nobody else knows the block.
  allocation memory;      // as the resource granted it
  std::size_t bytes = 0;  // asked for
  stream_ref stream;
  bool tracked = false;
  bool read_only = false;
  foreign_memory* foreign = nullptr;  // of an import: `memory` is not the resource's
  std::atomic<std::uint64_t> generation{0};

  /// Handles that exist.
  alignas(64) std::atomic<std::uint32_t> references{0};
  /// 2 while the block lives and handles exist; at 0 the record is free. Under the lock of the
  /// runtime's records.
  std::uint32_t holds = 0;
  block_record* next_unused = nullptr;
  /// Pushed by a thread that may not free the block itself.
  dead_block dead{*this};
  /// The lease has been marked as dying by the release of `dead`, which left the rest to a thread
  /// that may call the driver.
  bool free_begun = false;
  /// 1 for the block itself and one for each export; whoever makes it 0 gives the memory back.
  std::atomic<std::uint32_t> pins{0};

  /// Locks `uses`, too.
  alignas(64) detail::lease lease;
  use_state uses;
  /// Consumers outside whose uses are not in `uses` although they have let go of the block: their
  /// streams are being captured. Until they are, nothing may use it.
  std::uint32_t unordered_uses = 0;

  /// Under the lock of `uses`. @throws error `stream_misuse` while there are such consumers
  void require_ordered() const {
    if (unordered_uses == 0) return;
    throw error(errc::stream_misuse,
                "memory '" + std::string(memory.tag.name()) +
                    "': a consumer outside let go of it while that one's stream was being "
                    "captured; until the capture has ended nothing can be ordered behind its use");
  }
};

}  // namespace sluice::detail
