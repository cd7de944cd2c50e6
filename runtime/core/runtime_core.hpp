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

#include <sluice/export.hpp>
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

/// A scope in which the calling thread frees no block of `core` itself. A block that dies is pushed
/// on that runtime's release list.
///
/// A completion thread holds one, so that no free stands between two replies. It drains only the
/// list of its own runtime, so it frees blocks of other runtimes at once. A free of theirs that may
/// call the driver is left to their reclaim thread if that runs.
class deferred_frees_scope {
 public:
  explicit deferred_frees_scope(const runtime_core& core) noexcept;
  deferred_frees_scope(const deferred_frees_scope&) = delete;
  deferred_frees_scope& operator=(const deferred_frees_scope&) = delete;
  ~deferred_frees_scope();

 private:
  const runtime_core* previous_;
};

/// The steps of a launch at which tests may stop it.
enum class launch_step : std::uint8_t {
  leasing,    ///< before the request for the lease of one block
  blocked,    ///< before the wait for that lease; holds no other one, except in the turnstile
  starved,    ///< the attempts have failed: before the turnstile
  leased,     ///< holds all leases; its waits are not queued yet
  fenced,     ///< its waits are queued: the end of preflight
  enqueued,   ///< its work is queued: the beginning of commit
  submitted,  ///< has its ticket, which no block knows yet
  published,  ///< one block knows the ticket, and its lease has been returned
};

/// The part of a runtime that may outlive it: the records of streams and blocks, the release list.
/// The runtime, its streams and its blocks share it. Thread-safe unless a function states
/// otherwise.
class runtime_core final : public runtime_context,
                           public std::enable_shared_from_this<runtime_core> {
 public:
  /// Makes the core of a runtime. A detached thread destroys it if the thread that drops the last
  /// share cannot or should not wait.
  [[nodiscard]] static std::shared_ptr<runtime_core> make(std::shared_ptr<sluice::device> device,
                                                          std::unique_ptr<memory_resource> resource,
                                                          bool explicit_waits);
  ~runtime_core() override;

  [[nodiscard]] static const std::shared_ptr<runtime_core>& of(
      const device_runtime& runtime) noexcept {
    return runtime.core_;
  }

  [[nodiscard]] bool tasks_may_fail() const noexcept override { return tasks_may_fail_; }
  /// The state that transfers share. The first call creates it.
  /// @throws error `library_failure`
  /// @throws error `device_lost`
  /// @throws std::bad_alloc
  [[nodiscard]] transfer_staging& staging();
  /// Sets the limits of pinned memory. Only before the first transfer.
  void limit_pinned(transfer_staging::limits limits) noexcept { pinned_limits_ = limits; }
  /// Releases the pinned memory kept for later transfers.
  void trim_staging() noexcept;

  /// Whether a completed point replaces a wait.
  [[nodiscard]] bool completion_orders() const noexcept override { return !explicit_waits_; }
  [[nodiscard]] completion_words* words() noexcept override {
    return completion_orders() ? &words_ : nullptr;
  }
  /// The error words of launches.
  [[nodiscard]] error_words& errors() noexcept { return errors_; }
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
  /// Checks that the device was not inherited through `fork`. For functions that a lost device does
  /// not refuse.
  /// @throws error `device_lost` in a child of `fork` if the runtime is the parent's
  void require_own_process() const {
    if (device_->inherited()) device_->require_usable();
  }
  [[nodiscard]] bool closing() const noexcept { return closing_.load(std::memory_order_acquire); }

  // Streams
  /// Creates a stream and its record.
  /// @throws error `shutting_down`
  /// @throws error `device_lost`
  /// @throws error `library_failure`
  /// @throws error `unsupported` if the runtime has made the most streams that it can
  /// @throws std::bad_alloc
  [[nodiscard]] timeline& make_timeline(stream_priority priority = stream_priority::normal);
  /// Makes a record for a stream of another owner, which may destroy the stream once the record is
  /// retired.
  [[nodiscard]] timeline& adopt_timeline(native_stream* native);
  void note_retired(timeline& t) noexcept override;
  /// Visits some of the retired timelines that still have slots, and frees the slots where
  /// possible.
  void sweep_retired() noexcept;
  [[nodiscard]] timeline* find(stream_id id) const noexcept override;
  /// The record of a live stream of this runtime.
  /// @throws error `stream_misuse` if `stream` is not one
  [[nodiscard]] timeline& require(stream_ref stream) const;
  /// Whether `point` is empty or belongs to this runtime.
  [[nodiscard]] bool knows(timeline_point point) const noexcept;
  /// Checks that this runtime knows `point`.
  /// @throws error `stream_misuse` if it does not
  void require_known(timeline_point point) const;
  /// Whether `point` has completed. If so, the calling thread acquires its effects, as after a
  /// wait.
  [[nodiscard]] bool settled(timeline_point point) const noexcept override;
  [[nodiscard]] bool completed(timeline_point point) const noexcept override;
  void look_at(timeline_point point) noexcept override;
  void wait_until_complete(timeline_point point) noexcept override;
  /// Visits the timelines that have slots. Everything on the others has completed.
  void for_each_timeline(const std::function<void(timeline&)>& visit) const;
  /// Whether no work of this runtime touches memory any more, after the loss of the device.
  [[nodiscard]] bool quiescent() const noexcept;
  /// An adoption stream: it carries no launches, waits for streams of other libraries, and is
  /// waited for by them. Prefers an idle one, so that the wait of one import does not delay
  /// another. After the first success there is always one.
  /// @throws error `shutting_down`
  /// @throws error `device_lost`
  /// @throws error `library_failure`
  [[nodiscard]] timeline& adoption_timeline();

  // Blocks
  /// Allocates a block. The request names no generation.
  [[nodiscard]] block_ref allocate(allocation_request request);
  /// Reserves memory for blocks of these sizes, in bytes.
  /// @throws error `over_budget`
  [[nodiscard]] memory_reservation reserve(std::span<const std::size_t> sizes);
  /// Informs the resource of the misuse of a block. `block` is what is known of that block.
  void note_misuse(memory_misuse misuse, const allocation& block) noexcept;
  /// Makes a block of memory that other code allocated and has written up to `last_write`. Once the
  /// block has been freed and its uses have completed, the reclaim thread destroys `owner`, which
  /// returns the memory.
  /// @throws error `shutting_down`
  /// @throws error `device_lost`
  /// @throws std::bad_alloc
  [[nodiscard]] block_ref adopt(allocation memory, bool read_only, timeline_point last_write,
                                std::unique_ptr<foreign_memory>& owner);
  /// Whether the calling thread is the reclaim thread of this runtime.
  [[nodiscard]] bool reclaims_here() const noexcept { return reclaimer_.runs_here(); }
  void start_reclaiming() override { reclaimer_.start(); }
  void release_later(releasable* item) noexcept override {
    releases_->push_for_driver(item);
    reclaimer_.wake();
  }
  /// Makes the reclaim thread destroy `item` once `item` is ready.
  void reclaim_later(std::unique_ptr<deferred> item) noexcept;
  /// Keeps the memory of a block until `unlend`, even after the block is freed. False if the memory
  /// has been returned.
  [[nodiscard]] bool lend(block_record& record) noexcept;
  /// Ends a `lend`. Returns the memory if this drops the last pin.
  void unlend(block_record& record) noexcept;
  /// Frees a block. False if it is already dying.
  bool free(block_record& record) noexcept;
  /// Completes the free of a dying block on which no lease is held.
  void complete_free(block_record& record) noexcept;
  /// Handles the drop of the last reference: frees the block, or pushes it on the release list if
  /// the calling thread defers frees.
  void handles_gone(block_record& record) noexcept;
  /// Frees a block without references. A thread that defers frees leaves a free that may call the
  /// driver to the reclaim thread.
  void end_block(block_record& record) noexcept;

  // The interface of resources
  [[nodiscard]] stream_ref reclaim_stream() noexcept override { return reclaim_timeline_->ref(); }
  void wait(stream_ref stream, timeline_point point) override;
  void reclaim_after(std::span<const timeline_point> points, allocation memory,
                     void (*reclaim)(void* owner, allocation) noexcept, void* owner) override;
  void finish_reclaiming() noexcept override { reclaimer_.finish_ready(); }

  /// Orders later work of `stream` after `waits`, with at most one wait for each source stream.
  /// Reorders and overwrites `waits`.
  /// @throws error `stream_misuse` for a point of another runtime
  /// @throws error as `timeline::wait_for`
  void fence(timeline& stream, std::span<hazard_point> waits);
  struct published_use {
    timeline_point point;
    std::uint64_t version;  // of the block, before this use
  };
  /// Publishes the work enqueued on `stream` as a use of `block`. The use depends on `dependency`,
  /// the writer of what it reads. Its work began at ticket `first` or later.
  /// @throws error `stream_misuse` if the block or the stream belongs to another runtime, or if the
  /// memory cannot be tracked or must not be written
  /// @throws error `stale_ref` if the block has been freed
  /// @throws error `library_failure`
  /// @throws error `device_lost`
  /// @throws std::bad_alloc
  published_use publish_use(const block_ref& block, stream_ref stream, access_kind access,
                            timeline_point dependency = {},
                            std::uint64_t first = timeline::no_ticket);
  /// The error for a block of another runtime: `stale_ref` if the block has been freed, otherwise
  /// `code` with `text`.
  [[nodiscard]] static error foreign(const block_ref& block, errc code, const std::string& text);
  /// The error of `function` for a freed block. Also informs the resource.
  [[nodiscard]] error freed_already(const block_ref& block, const char* function);
  /// The dependency of a use that reads the block: the launch that wrote it, or the empty point if
  /// that is known to have succeeded. The caller has locked the use state.
  /// @throws error `upstream_failed` if that launch has failed
  [[nodiscard]] timeline_point dependency_on(block_record& record) const;
  void forget_failures_later(timeline& t) noexcept override;
  /// Omits each wait for which `left_out` returns true. For tests, before the first launch.
  using left_out_function = std::function<bool(hazard)>;
  void leave_out(left_out_function left_out) { left_out_ = std::move(left_out); }
  /// Calls `callback` at each step of each launch, on the launching thread. It must not throw. For
  /// tests, before the first recorder is made.
  using step_function = std::function<void(launch_step)>;
  void at_each_step(step_function callback) { step_callback_ = std::move(callback); }
  [[nodiscard]] const step_function* step_called() const noexcept {
    return step_callback_ ? &step_callback_ : nullptr;
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
  void note_lease_wait(std::chrono::nanoseconds duration) noexcept;
  void count_abandoned() noexcept { abandoned_.fetch_add(1, std::memory_order_relaxed); }

  /// See `device_runtime::shut_down`.
  bool drain(std::chrono::milliseconds timeout) noexcept;
  /// Frees every block, returns the resource's memory and retires the streams. Called after
  /// `drain`.
  ///
  /// `timeout` limits each of four waits: for libraries of ended lanes; for launches between
  /// preflight and commit, their work, imports, transfers and frees together; for the reclaim
  /// stream; for other threads that drain the release list. What is still in use afterwards stays
  /// until its last user is destroyed.
  void tear_down(std::chrono::milliseconds timeout) noexcept;

 private:
  using clock = std::chrono::steady_clock;

  runtime_core(std::shared_ptr<sluice::device> device, std::unique_ptr<memory_resource> resource,
               bool explicit_waits);
  /// Completes the construction, where `shared_from_this` is needed.
  void start();

  static constexpr std::size_t slab_size = 64;
  using slab = std::array<block_record, slab_size>;

  [[nodiscard]] timeline& add_timeline(native_stream* native, bool owned);
  /// Appends `t` to the list of retired timelines with slots.
  void queue_retired(timeline& t) noexcept;
  /// Removes `t` from the active timelines. Called by the thread that saw it free its slots.
  void leave_out(timeline& t) noexcept;
  /// Forgets the outcomes of the oldest tickets of `t` once no reader may ask for them. One call
  /// begins the grace period; the first call after its end forgets.
  void forget_failures(timeline& t) noexcept;
  /// Records the outcome in each block whose last write is a ticket of `t` up to `last`.
  void note_outcomes(timeline& t, std::uint64_t last) noexcept;
  /// Removes the oldest entry of that list. nullptr if there is none.
  [[nodiscard]] timeline* next_retired() noexcept;
  /// Calls `ask`, and once more after making room if memory was short. `bytes` are needed at most.
  /// Pools are emptied only if that could provide enough.
  template <class Ask>
  auto obtain(std::size_t bytes, Ask ask) -> decltype(ask());
  /// Whether the device has `bytes` bytes of memory in total. True if it does not report its size.
  [[nodiscard]] bool device_has(std::size_t bytes) const noexcept;
  /// Whether the destructor would wait for work that the runtime's end did not wait for.
  [[nodiscard]] bool ends_late() const noexcept;
  /// Requests memory for a block from the resource.
  /// @throws error as the resource; `out_of_memory` names the tag
  [[nodiscard]] granted_memory grant(const allocation_request& request);
  /// Waits until all committed launches have completed. If they have not by `end`, declares the
  /// device lost. Returns false then, or if the device was lost before. `limit` is the time until
  /// `end`, for messages.
  bool finish_launches(clock::time_point end, std::chrono::milliseconds limit) noexcept;
  /// Whether a launch or an allocation is about to take a ticket.
  [[nodiscard]] bool launching() const noexcept;
  /// Does all of `tear_down`, except for what outlives the runtime.
  void end_work(std::chrono::milliseconds timeout) noexcept;
  /// Makes the resource return all memory that it keeps, after the last free, and ends the reclaim
  /// thread. If frees are unfinished at `end`, declares the device lost and waits one more second.
  /// False if they are unfinished even then: the thread continues.
  [[nodiscard]] bool finish_frees(clock::time_point end) noexcept;
  /// Ends the remaining transfers, after `drain`.
  void end_staging(clock::time_point end) noexcept;
  /// Leaves the resource, the reclaim thread and the streams that order frees to `~runtime_core`.
  void outlive() noexcept;
  /// A free record and the generation of its next block.
  struct taken_record {
    block_record* record;
    std::uint64_t generation;
  };
  /// Takes a free record and counts its block.
  [[nodiscard]] taken_record take_record();
  /// Adds a slab of free records, unless another thread has.
  /// @throws std::bad_alloc
  void grow_records();
  /// Puts back a taken record of which no block was begun.
  void give_record(block_record& record) noexcept;
  /// Frees memory for which no block was made, ordered after its allocation.
  void give_up(granted_memory& granted, stream_ref stream, timeline_point allocated) noexcept;
  /// Begins a block, with one reference, in a record that has been filled in.
  [[nodiscard]] block_ref begin_block(const taken_record& free_record) noexcept;
  /// Puts a record on the free list, under the lock of the records. The caller drops the result, if
  /// any, after unlocking.
  [[nodiscard]] std::shared_ptr<runtime_core> put_back(block_record& record) noexcept;
  /// Drops a pin. Returns whether it was the last one and the memory has been returned.
  [[nodiscard]] bool unpin(block_record& record) noexcept;
  /// Returns the memory of a block to the resource, or its import to the reclaim thread. False for
  /// an import.
  [[nodiscard]] bool give_memory_back(block_record& record) noexcept;
  /// The parts of a block that end.
  struct block_end {
    bool life = false;
    bool memory = false;
    std::uint32_t holds = 0;
  };
  /// Counts the end, and puts the record back with its last hold. After the runtime's end, the last
  /// record destroys `this`.
  void note_end(block_record& record, block_end end) noexcept;
  [[nodiscard]] std::size_t blocks() const noexcept {
    const std::lock_guard lock(records_lock_);
    return blocks_;
  }

  const std::uint32_t serial_;
  const bool explicit_waits_;
  std::shared_ptr<sluice::device> device_;
  const bool tasks_may_fail_;
  completion_words words_;
  error_words errors_;
  std::unique_ptr<memory_resource> resource_;
  std::mutex misuse_mutex_;  // held to destroy the resource, and to inform it of misuse
  left_out_function left_out_;
  step_function step_callback_;
  std::atomic<bool> closing_{false};
  bool bound_ = false;  // the resource is bound
  bool torn_down_ = false;
  bool outlived_ = false;  // something that needs the resource outlived the runtime

  mutable std::mutex streams_mutex_;
  std::vector<std::unique_ptr<timeline>> timelines_;
  std::vector<timeline*> active_;     // timelines with slots
  std::uint64_t ended_launches_ = 0;  // of the other timelines
  std::uint64_t ended_waits_ = 0;     // of the other timelines
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
  // One short lock covers the beginning and the end of blocks.
  mutable spin_lock records_lock_;
  block_record* unused_ = nullptr;
  std::size_t records_in_use_ = 0;
  std::uint64_t generations_ = 0;
  std::size_t bytes_ = 0;
  std::size_t peak_bytes_ = 0;
  std::size_t blocks_ = 0;
  std::shared_ptr<runtime_core> self_;  // set after the runtime's end, while records are in use

  mutable std::mutex staging_mutex_;  // covers the creation of `staging_`
  std::unique_ptr<transfer_staging> staging_;
  transfer_staging::limits pinned_limits_;

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
