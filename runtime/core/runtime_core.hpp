// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/chunked_table.hpp"
#include "runtime/blocks/block_record.hpp"
#include "runtime/core/foreign_memory.hpp"
#include "runtime/core/reclaim_thread.hpp"
#include "runtime/reports/report.hpp"
#include "runtime/staging/transfer_staging.hpp"
#include "runtime/sync/release_list.hpp"
#include "runtime/timelines/runtime_context.hpp"
#include "runtime/timelines/timeline.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/memory_budget.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace sluice::detail {

class runtime_core;

/// While it lives, the calling thread frees no block of `core` itself: what dies there is pushed on
/// that runtime's release list. The completion thread holds one, so that no free stands between two
/// replies. It drains this runtime's list and no other, so blocks of other runtimes are freed at
/// once; a free of theirs that may call the driver is left to their reclaim thread if there is one.
class deferred_frees_scope {
 public:
  explicit deferred_frees_scope(const runtime_core& core) noexcept;
  deferred_frees_scope(const deferred_frees_scope&) = delete;
  deferred_frees_scope& operator=(const deferred_frees_scope&) = delete;
  ~deferred_frees_scope();

 private:
  const runtime_core* before_;
};

/// How far a launch has come, for tests.
enum class launch_step : std::uint8_t {
  leasing,    ///< about to ask for the lease of one block
  blocked,    ///< is about to wait for that lease; holds no other one, except in the turnstile
  starved,    ///< its attempts have failed: is about to enter the turnstile
  leased,     ///< has all leases and is not fenced yet
  fenced,     ///< its waits are queued: preflight is done
  enqueued,   ///< what it is for is queued, too: commit has begun
  submitted,  ///< has its ticket, of which no block knows yet
  published,  ///< one block knows of it, and its lease has been returned
};

/// What a runtime consists of and what may outlive it: stream records, block records, the release
/// list. Shared by the runtime, its streams and its blocks.
class runtime_core final : public runtime_context,
                           public std::enable_shared_from_this<runtime_core> {
 public:
  [[nodiscard]] static std::shared_ptr<runtime_core> make(std::shared_ptr<sluice::device> device,
                                                          std::unique_ptr<memory_resource> resource,
                                                          bool explicit_waits);
  ~runtime_core() override;

  [[nodiscard]] static const std::shared_ptr<runtime_core>& of(
      const device_runtime& runtime) noexcept {
    return runtime.core_;
  }

  [[nodiscard]] bool tasks_may_fail() const noexcept override { return tasks_may_fail_; }
  /// What transfers share; made by the first one. @throws error `library_failure`, `device_lost`;
  /// std::bad_alloc
  [[nodiscard]] transfer_staging& staging();
  /// See `runtime_options::pinned_limit`. Before the first transfer.
  void limit_pinned(std::size_t bytes) noexcept { pinned_limit_ = bytes; }
  /// Releases the pinned memory that is kept for later transfers.
  void trim_staging() noexcept;

  /// Whether a completed point may stand for a wait.
  [[nodiscard]] bool completion_orders() const noexcept override { return !explicit_waits_; }
  [[nodiscard]] std::uint32_t serial() const noexcept { return serial_; }
  [[nodiscard]] sluice::device& device() noexcept override { return *device_; }
  [[nodiscard]] const std::shared_ptr<sluice::device>& shared_device() const noexcept override {
    return device_;
  }
  [[nodiscard]] device_id id() const noexcept { return device_->id(); }
  [[nodiscard]] memory_resource& resource() noexcept { return *resource_; }
  [[nodiscard]] release_list& releases() noexcept override { return *releases_; }
  [[nodiscard]] std::shared_ptr<release_list> owners() noexcept override { return releases_; }

  void require_open() const override;
  /// For functions that a lost device does not refuse. @throws error `device_lost` in a child of
  /// `fork()` to which the parent's runtime was handed down
  void require_own_process() const {
    if (device_->inherited()) device_->require_usable();
  }
  [[nodiscard]] bool closing() const noexcept { return closing_.load(std::memory_order_acquire); }

  // Streams
  [[nodiscard]] timeline& make_timeline(stream_priority priority = stream_priority::normal);
  /// A record of a stream that somebody else made and destroys, after the record is retired.
  [[nodiscard]] timeline& adopt_timeline(native_stream* native);
  void note_retired(timeline& t) noexcept override;
  /// Looks at some of the retired timelines that still have their slots.
  void sweep_retired() noexcept;
  [[nodiscard]] timeline* find(stream_id id) const noexcept override;
  /// @throws error `stream_misuse` unless `stream` is a live stream of this runtime
  [[nodiscard]] timeline& require(stream_ref stream) const;
  /// Whether `point` is empty or has been made in this runtime.
  [[nodiscard]] bool knows(timeline_point point) const noexcept;
  /// @throws error `stream_misuse` unless it is one of these
  void require_known(timeline_point point) const;
  /// Whether `point` has completed; if so its effects are visible to this thread, as if it had
  /// waited.
  [[nodiscard]] bool settled(timeline_point point) const noexcept override;
  [[nodiscard]] bool completed(timeline_point point) const noexcept override;
  void look_at(timeline_point point) noexcept override;
  void wait_until_complete(timeline_point point) noexcept override;
  /// Visits the timelines that have slots. Everything on the others has completed.
  void for_each_timeline(const std::function<void(timeline&)>& visit) const;
  /// After the device's loss: whether nothing of this runtime touches memory any more.
  [[nodiscard]] bool quiescent() const noexcept;
  /// A stream of the runtime's own that carries no launches, to wait for foreign streams and to be
  /// waited for by them: one that is idle where there is one, so that what one import waits for
  /// does not delay another. Once one has been made there always is one. @throws error
  /// `shutting_down`, `device_lost`, `library_failure`
  [[nodiscard]] timeline& adoption_timeline();

  // Blocks
  /// Memory for a block, by a request without a generation.
  [[nodiscard]] block_ref allocate(allocation_request request);
  /// Sets memory for blocks of these sizes aside. @throws error `over_budget`
  [[nodiscard]] memory_reservation reserve(std::span<const std::size_t> sizes);
  /// Tells the resource that a block, of which this is known, was used against the rules.
  void note_misuse(memory_misuse misuse, const allocation& known) noexcept;
  /// Makes a block of memory that somebody else allocated: `owner` gives it back, on the reclaim
  /// thread, once the block has been freed and its uses have completed. `written` is what it was
  /// written up to. @throws error `shutting_down`, `device_lost`; std::bad_alloc
  [[nodiscard]] block_ref adopt(allocation memory, bool read_only, timeline_point written,
                                std::unique_ptr<foreign_memory>& owner);
  /// Keeps such memory, untracked, as long as the pointer has copies. @throws error as above;
  /// std::bad_alloc, and `owner` may be gone
  [[nodiscard]] std::shared_ptr<const void> keep(std::unique_ptr<foreign_memory>& owner);
  /// Whether the calling thread is the reclaim thread.
  [[nodiscard]] bool reclaims_here() const noexcept { return reclaimer_.runs_here(); }
  void start_reclaiming() override { reclaimer_.start(); }
  void release_later(releasable* item) noexcept override {
    releases_->push_for_driver(item);
    reclaimer_.wake();
  }
  /// Has the reclaim thread destroy `item` once it is ready.
  void reclaim_later(std::unique_ptr<deferred> item) noexcept;
  /// Keeps the memory of a block, beyond its free, until `unlend`. False when it has been freed.
  [[nodiscard]] bool lend(block_record& record) noexcept;
  void unlend(block_record& record) noexcept;
  /// Frees a block that is not dying yet; false when it is.
  bool free(block_record& record) noexcept;
  /// Completes the free of a dying block of which no lease is held.
  void complete_free(block_record& record) noexcept;
  /// The last handle is gone: frees the block, or pushes it on the release list where the calling
  /// thread defers frees.
  void handles_gone(block_record& record) noexcept;
  /// Frees a block whose last handle is gone. A thread that defers frees leaves a free that may
  /// call the driver to the reclaim thread.
  void end_block(block_record& record) noexcept;

  // What a resource asks for
  [[nodiscard]] stream_ref reclaim_stream() noexcept override { return reclaim_timeline_->ref(); }
  void wait(stream_ref stream, timeline_point point) override;
  void reclaim_after(std::span<const timeline_point> points, allocation memory,
                     void (*reclaim)(void* owner, allocation) noexcept, void* owner) override;
  void finish_reclaiming() noexcept override { reclaimer_.finish_ready(); }

  /// Orders `stream` after what `waits` names: at most one wait per source stream. Reorders and
  /// overwrites `waits`. @throws error, also `stream_misuse` for a point of another runtime
  void fence(timeline& stream, std::span<hazard_point> waits);
  struct published_use {
    timeline_point point;
    std::uint64_t version;  // of the block, before this use
  };
  /// Publishes what has been enqueued on `stream` as a use of `block` that depends on what it
  /// reads, `depends_on`, and whose ticket is `first` or a later one. @throws error as
  /// `device_runtime::record_use`
  published_use publish_use(const block_ref& block, stream_ref stream, access_kind access,
                            timeline_point depends_on = {},
                            std::uint64_t first = timeline::no_ticket);
  /// The error for a block of another runtime: `stale_ref` if it has been given back, otherwise
  /// `code` with `text`.
  [[nodiscard]] static error foreign(const block_ref& block, errc code, const std::string& text);
  /// The error of `function` for a block that has been freed; tells the resource of it, too.
  [[nodiscard]] error freed_already(const block_ref& block, const char* function);
  /// What a use that reads the block depends on: the launch that wrote it, unless that is known to
  /// have succeeded. With the use state locked. @throws error `upstream_failed` when it has failed
  [[nodiscard]] timeline_point dependency_on(block_record& record) const;
  void forget_failures_later(timeline& t) noexcept override;
  /// For tests: a wait for which this answers true is left out. Set before the first launch.
  using left_out_function = std::function<bool(hazard)>;
  void leave_out(left_out_function left_out) { left_out_ = std::move(left_out); }
  /// For tests: called at each step of each launch, on its thread; throws nothing. Set before the
  /// first recorder is made.
  using step_function = std::function<void(launch_step)>;
  void at_each_step(step_function called) { at_step_ = std::move(called); }
  [[nodiscard]] const step_function* step_called() const noexcept {
    return at_step_ ? &at_step_ : nullptr;
  }

  [[nodiscard]] runtime_statistics statistics() const;
  [[nodiscard]] std::size_t bytes_outstanding() const noexcept {
    const std::lock_guard lock(records_lock_);
    return bytes_;
  }
  void count_events(std::ptrdiff_t change) noexcept override {
    events_.fetch_add(static_cast<std::size_t>(change), std::memory_order_relaxed);
  }
  void count_stream_retired() noexcept override {
    live_streams_.fetch_sub(1, std::memory_order_relaxed);
  }
  void count_import(std::ptrdiff_t change) noexcept {
    imports_.fetch_add(static_cast<std::size_t>(change), std::memory_order_release);
  }
  void count_lease_wait() noexcept { lease_waits_.fetch_add(1, std::memory_order_relaxed); }
  void note_lease_wait(std::chrono::nanoseconds took) noexcept;
  void count_abandoned() noexcept { abandoned_.fetch_add(1, std::memory_order_relaxed); }

  /// See `device_runtime::shut_down`.
  bool drain(std::chrono::milliseconds timeout) noexcept;
  /// Frees every block, gives the resource and the streams back. After `drain`. Waits up to
  /// `timeout` for libraries to end, as long for launches that were between preflight and commit
  /// during the drain and for their work, and as long for other threads that drain the release
  /// list; what is left then goes with the last of them.
  void tear_down(std::chrono::milliseconds timeout) noexcept;

 private:
  using clock = std::chrono::steady_clock;

  runtime_core(std::shared_ptr<sluice::device> device, std::unique_ptr<memory_resource> resource,
               bool explicit_waits);
  /// The second half of making: what needs `shared_from_this`.
  void start();

  static constexpr std::size_t slab_size = 64;
  using slab = std::array<block_record, slab_size>;

  [[nodiscard]] timeline& add_timeline(native_stream* native, bool owned);
  void queue_retired(timeline& t) noexcept;
  /// By the thread that saw `t` give up its slots.
  void leave_out(timeline& t) noexcept;
  /// Forgets the outcomes of the oldest tickets of `t`, once the readers that may ask for them have
  /// left: a call begins the grace period, the first call after its end forgets.
  void forget_failures(timeline& t) noexcept;
  /// Notes in each block whose last write is a ticket of `t` up to `last` how that ended.
  void note_outcomes(timeline& t, std::uint64_t last) noexcept;
  [[nodiscard]] timeline* next_retired() noexcept;
  /// Asks the resource, with `ask`, a second time where memory was short. Pools are emptied for
  /// that only if they could keep enough: `bytes` are needed at most.
  template <class Ask>
  auto obtain(std::size_t bytes, Ask ask) -> decltype(ask());
  /// Whether the device has that many bytes in all, or does not say.
  [[nodiscard]] bool device_has(std::size_t bytes) const noexcept;
  /// Whether ending this would wait for somebody whom the runtime's own end did not wait for.
  [[nodiscard]] bool ends_late() const noexcept;
  /// Asks the resource for memory that a block is to lie in. @throws error as the resource,
  /// `out_of_memory` with the tag
  [[nodiscard]] granted_memory grant(const allocation_request& request);
  /// Waits until what has been committed has completed. The device is declared lost if it has not
  /// by `end`, `limit` from the beginning on; false then, and if it was lost before.
  bool finish_launches(clock::time_point end, std::chrono::milliseconds limit) noexcept;
  /// Whether a launch, or an allocation, is about to take a ticket.
  [[nodiscard]] bool launching() const noexcept;
  /// All of `tear_down` but for what outlives it.
  void end_work(std::chrono::milliseconds timeout) noexcept;
  /// Has the resource give back all it keeps, after the last free, and ends the reclaim thread. The
  /// device is declared lost if what that waits for has not ended by `end`; false where it does not
  /// end then either, and the thread goes on.
  [[nodiscard]] bool finish_frees(clock::time_point end) noexcept;
  /// Ends the transfers that are left, after `drain`.
  void end_staging(clock::time_point end) noexcept;
  /// Leaves the resource, the reclaim thread and the streams that order frees to `~runtime_core`.
  void outlive() noexcept;
  /// A free record and the generation of the block that it will be of.
  struct taken_record {
    block_record* record;
    std::uint64_t generation;
  };
  /// Counts the block already.
  [[nodiscard]] taken_record take_record();
  void grow_records();
  void give_record(block_record& record) noexcept;
  /// Gives memory back that no block became of, behind its allocation.
  void give_up(granted_memory& granted, stream_ref stream, timeline_point allocated) noexcept;
  /// Makes a block, with one handle, of a record that has been filled in.
  [[nodiscard]] block_ref begin_block(const taken_record& taken) noexcept;
  /// Under the lock of the records. The result, if any, is to be dropped behind it.
  [[nodiscard]] std::shared_ptr<runtime_core> put_back(block_record& record) noexcept;
  /// Whether the block's memory has gone back with its last pin.
  [[nodiscard]] bool unpin(block_record& record) noexcept;
  [[nodiscard]] bool give_memory_back(block_record& record) noexcept;
  /// What is over of a block.
  struct block_end {
    bool life = false;
    bool memory = false;
    std::uint32_t holds = 0;
  };
  /// Counts it, and gives the record back with its last hold. The last record of a runtime that is
  /// gone ends `this`.
  void note_end(block_record& record, block_end end) noexcept;
  [[nodiscard]] std::size_t blocks() const noexcept {
    const std::lock_guard lock(records_lock_);
    return blocks_;
  }

  const std::uint32_t serial_;
  const bool explicit_waits_;
  std::shared_ptr<sluice::device> device_;
  const bool tasks_may_fail_;
  std::unique_ptr<memory_resource> resource_;
  std::mutex misuse_mutex_;  // held where the resource goes, and where it is told of misuse
  left_out_function left_out_;
  step_function at_step_;
  std::atomic<bool> closing_{false};
  bool bound_ = false;  // the resource is
  bool torn_down_ = false;
  bool outlived_ = false;  // by a recorder, or by what came in or went out

  mutable std::mutex streams_mutex_;
  std::vector<std::unique_ptr<timeline>> timelines_;
  std::vector<timeline*> active_;     // those with slots
  std::uint64_t ended_launches_ = 0;  // of the others
  std::uint64_t ended_waits_ = 0;     // likewise
  chunked_table<timeline*> timeline_of_index_;
  timeline* reclaim_timeline_ = nullptr;

  spin_lock retired_lock_;
  timeline* oldest_retired_ = nullptr;
  timeline* newest_retired_ = nullptr;

  std::mutex adoption_mutex_;
  std::array<timeline*, 4> adoption_{};
  std::size_t adoption_count_ = 0;
  std::size_t next_adoption_ = 0;

  mutable std::mutex slabs_mutex_;  // taken before the lock of the records
  std::vector<std::unique_ptr<slab>> slabs_;
  // Blocks begin and end under one short lock.
  mutable spin_lock records_lock_;
  block_record* unused_ = nullptr;
  std::size_t records_in_use_ = 0;
  std::uint64_t generations_ = 0;
  std::size_t bytes_ = 0;
  std::size_t peak_bytes_ = 0;
  std::size_t blocks_ = 0;
  std::shared_ptr<runtime_core> self_;  // once the runtime is gone, while records are in use

  mutable std::mutex staging_mutex_;  // covers making `staging_`
  std::unique_ptr<transfer_staging> staging_;
  std::size_t pinned_limit_ = 0;

  const std::shared_ptr<release_list> releases_ = std::make_shared<release_list>();
  reclaim_thread reclaimer_;

  std::atomic<std::size_t> imports_{0};
  std::atomic<std::size_t> exports_{0};
  std::atomic<std::size_t> events_{0};
  std::atomic<std::size_t> live_streams_{0};
  std::atomic<std::size_t> bytes_lost_{0};
  std::atomic<std::uint64_t> abandoned_{0};
  std::atomic<std::uint64_t> lease_waits_{0};
  std::atomic<std::chrono::nanoseconds::rep> lease_wait_total_{0};
  std::atomic<std::chrono::nanoseconds::rep> lease_wait_longest_{0};
};

inline runtime_core& timeline::core() const noexcept {
  return static_cast<runtime_core&>(context_);
}

}  // namespace sluice::detail
