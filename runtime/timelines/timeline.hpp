// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/chunked_table.hpp"
#include "runtime/sync/hazard_pointer.hpp"
#include "runtime/sync/reader_epochs.hpp"
#include "runtime/sync/spin_lock.hpp"
#include "runtime/timelines/cross_runtime_dependency.hpp"

#include <sluice/runtime/device.hpp>
#include <sluice/runtime/memory_resource.hpp>
#include <sluice/runtime/small_vector.hpp>
#include <sluice/runtime/stream.hpp>
#include <sluice/runtime/timeline_point.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::detail {

class runtime_context;
class runtime_core;

/// What a launch depends on: at most a point for each block, so no heap for up to eight.
using dependency_points = small_vector<timeline_point, 8>;

/// A stream's record: its tickets, the pooled events behind them and the watermark of what has
/// completed. Lives as long as the runtime's core, longer than the stream; its events and tables go
/// once the stream has been retired and everything on it has completed.
class timeline {
 public:
  /// `owned`: the native stream is destroyed when this one is retired.
  timeline(runtime_context& context, stream_id id, native_stream* native, bool owned);
  timeline(const timeline&) = delete;
  timeline& operator=(const timeline&) = delete;
  ~timeline();

  /// The record that a reference names; nullptr for none.
  [[nodiscard]] static timeline* of(stream_ref stream) noexcept { return stream.timeline_; }
  /// The stream of a reservation, which the caller is to use up; nullptr for none.
  [[nodiscard]] static timeline* take(point_reservation& place) noexcept {
    return std::exchange(place.on_, nullptr);
  }
  [[nodiscard]] stream_ref ref() noexcept { return stream_ref(this); }

  /// The core of its runtime; defined there.
  [[nodiscard]] runtime_core& core() const noexcept;
  [[nodiscard]] sluice::device& device() const noexcept { return device_; }
  [[nodiscard]] stream_id id() const noexcept { return id_; }
  [[nodiscard]] native_stream* native() const noexcept { return native_; }
  [[nodiscard]] timeline_point newest() const noexcept {
    return {id_, submitted_.load(std::memory_order_acquire)};
  }
  [[nodiscard]] std::uint64_t watermark() const noexcept {
    return watermark_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool completed(std::uint64_t ticket) const noexcept {
    return watermark() >= ticket;
  }

  /// Makes sure that one `submit` finds an event slot, so that it allocates nothing.
  /// @throws error, also `stream_misuse` when the stream was adopted and is being captured;
  /// std::bad_alloc
  void reserve();
  /// Takes a reservation back.
  void unreserve() noexcept;
  /// Whether a launch is being made, perhaps in a driver that blocks.
  [[nodiscard]] bool has_reservations() noexcept {
    const std::unique_lock lock(submission_, std::try_to_lock);
    return !lock || reserved_ != 0;
  }

  /// Takes the next ticket for the work enqueued so far and records its event; uses up one
  /// reservation. `dependencies` are unfinished points whose failure is this ticket's failure too;
  /// `failure` says that it has failed already. `first` is the ticket that came next when the
  /// launch began: a failure of its work is noted for whichever ticket was taken first, so one of
  /// the tickets from there on is its own. `upstream` is one of another runtime, for which the
  /// stream waits already.
  /// @throws error `device_lost`, `stream_misuse` (the stream has been retired); then no ticket was
  ///   taken
  std::uint64_t submit(dependency_points&& dependencies = {}, const error* failure = nullptr,
                       std::uint64_t first = no_ticket,
                       std::unique_ptr<cross_runtime_dependency> upstream = nullptr);
  static constexpr auto no_ticket = ~std::uint64_t{0};

  /// Asks the driver and moves the watermark. Anyone may; somebody else doing it makes this a
  /// no-op. Returns the watermark.
  std::uint64_t advance() noexcept;
  /// Advances until `ticket` has completed. Blocks. @throws error `device_lost`, also when it is
  /// `waiting`, the device that the caller works for, if that is another one
  void wait_until(std::uint64_t ticket, const sluice::device* waiting = nullptr);

  /// Why `ticket`, which has completed, failed; nothing when it succeeded. Takes a mutex only for
  /// tickets up to the newest that failed. The reasons of the newest `most_reasons` failures are
  /// kept; older tickets are known to have failed, without a reason. Only for one of
  /// `outcome_readers` is the answer certain: otherwise a ticket that succeeded counts as failed
  /// once more than `most_reasons + most_forgotten / 2` later ones have failed.
  [[nodiscard]] std::optional<error> failure_of(std::uint64_t ticket) const;
  static constexpr std::size_t most_reasons = 1024;
  /// The failure of a ticket whose reason is no longer known.
  [[nodiscard]] static const error& forgotten_failure() noexcept;
  /// How many ranges of tickets that failed without a known reason are kept; beyond it the core
  /// forgets the older half (`runtime_core::forget_failures`) as soon as nobody asks for them.
  static constexpr std::size_t most_forgotten = 4096;
  /// Who is going to ask for outcomes of this stream. Enters before the ticket is taken; or, if it
  /// is one that a block was written by, under the guard of that block.
  [[nodiscard]] reader_epochs& outcome_readers() noexcept { return outcome_readers_; }
  /// Up to which ticket the outcomes may be forgotten; 0 while there are few.
  [[nodiscard]] std::uint64_t forgettable() const;
  /// Forgets which tickets up to `last` have failed. From then on all of them count as failed.
  void forget_outcomes(std::uint64_t last) noexcept;
  /// How many failures are known, with and without a reason: for tests.
  [[nodiscard]] std::size_t known_failures() const;
  /// The oldest ticket of `source` whose outcome decides that of an unsettled ticket here;
  /// `no_ticket` if none.
  [[nodiscard]] std::uint64_t oldest_dependency_on(stream_id source) noexcept;
  /// Tries again to forget outcomes once an earlier reader has left.
  void forget_when_possible() noexcept { wants_to_forget_.store(true, std::memory_order_relaxed); }
  /// Makes the effects of the completed work up to `ticket` visible to this thread.
  void acquire(std::uint64_t ticket) noexcept;

  /// Orders later work of this stream, which has a reservation, after `ticket` of `source`, unless
  /// that is known to be so. Returns whether a wait was queued. @throws error `device_lost`,
  /// `library_failure`, `stream_misuse` (the stream has been retired)
  bool wait_for(timeline& source, std::uint64_t ticket);

  /// Orders later work of a stream of `elsewhere`, a device of the same kind, after `ticket`.
  /// @throws error as the device
  void let_wait(sluice::device& elsewhere, native_stream* stream, std::uint64_t ticket);
  /// Says that the work of `ticket`, which is not known to have completed, failed or will have.
  void fail(std::uint64_t ticket, const error& why) noexcept { note_failure(ticket, why, false); }

  /// When nobody asks any more whether what has not completed will have failed: lets go of the
  /// other runtimes that this depends on.
  void forget_upstream() noexcept;

  /// How many waits `wait_for` has queued, for statistics.
  [[nodiscard]] std::uint64_t waits() const noexcept {
    return waits_.load(std::memory_order_relaxed);
  }

  /// Keeps the core alive until `let_go_of_core`. The timeline counts the recorder, so that
  /// launches on different streams share no counter. Returns false once the runtime is gone: then
  /// the caller takes a share of the core instead.
  [[nodiscard]] bool hold_core() noexcept;
  /// Returns a share of the core, to be dropped after everything else, if the runtime is gone and
  /// this was the last hold.
  [[nodiscard]] std::shared_ptr<runtime_core> let_go_of_core() noexcept;
  /// The runtime is gone: from now on `core` lives until the last hold ends. Called once.
  void leave_core_to_holders(std::shared_ptr<runtime_core> core) noexcept;

  /// The stream is gone: takes a last ticket and destroys the native stream behind its work.
  /// Idempotent.
  void retire() noexcept;
  /// Blocks until what is queued so far has finished, also when the stream is retired meanwhile.
  /// @throws error as the device
  void synchronize();
  /// Whether this is somebody else's stream, not retired, and is being captured.
  [[nodiscard]] bool captured() noexcept;
  /// Calls `function`, which is short, with the native stream unless that has
  /// been retired; it is not retired meanwhile. Returns whether it was called.
  template <class Function>
  bool unless_retired(Function function) noexcept(noexcept(function(nullptr))) {
    const std::lock_guard lock(submission_);
    if (retired()) return false;
    function(native_);
    return true;
  }
  /// Once everything on a retired stream is known to have completed: gives events and tables back.
  /// Whether that has been done.
  bool give_up_slots() noexcept;
  [[nodiscard]] bool retired() const noexcept { return retired_.load(std::memory_order_acquire); }
  /// After the device's loss: whether nothing on this stream touches memory any more.
  [[nodiscard]] bool quiescent() noexcept;

 private:
  struct slot {
    native_event* event = nullptr;
    std::uint64_t first = no_ticket;
    dependency_points dependencies;
    std::unique_ptr<cross_runtime_dependency> upstream;
    /// Whether the ticket fails when another one has.
    [[nodiscard]] bool depends() const noexcept { return !dependencies.empty() || upstream; }
  };
  /// Of tickets that failed for one reason, up to `last`.
  struct failed_tickets {
    std::uint64_t last;
    error why;
    bool found_there;
  };
  struct ticket_range {
    std::uint64_t first;
    std::uint64_t last;
    bool found_there;
  };
  /// The slots of tickets from `start` on, until a larger ring takes over. Never moves; goes with
  /// all the others.
  struct ring {
    std::uint64_t start = 0;
    std::uint64_t mask = 0;
    std::vector<slot> slots;
    std::unique_ptr<ring> older;
  };

  /// Whether the native stream is there; one of our own then stays until `let_go_of_stream`.
  [[nodiscard]] bool keep_stream() noexcept;
  void let_go_of_stream() noexcept;
  [[nodiscard]] std::unique_ptr<ring> make_ring(std::uint64_t start, std::size_t capacity,
                                                std::unique_ptr<ring> older);
  /// For who takes tickets, who advances over unfinished ones, and slot readers.
  [[nodiscard]] slot& slot_of(std::uint64_t ticket) const noexcept;
  void destroy_events(const ring* newest) noexcept;
  /// Takes the next ticket. Under `submission_`, so that an `upstream` that is of no use, and may
  /// be the last of another runtime, is left to the caller.
  std::uint64_t take_ticket(dependency_points&& dependencies, const error* failure,
                            std::uint64_t first,
                            std::unique_ptr<cross_runtime_dependency>& upstream);
  /// Where half of the newest ring is open, now and then what has completed; always before it is
  /// full, reservations aside.
  void ask_now_and_then() noexcept;
  [[nodiscard]] event_state query(std::uint64_t ticket) noexcept;
  /// `advance` under its lock. Returns the watermark.
  std::uint64_t advance_locked() noexcept;
  /// The newest ticket up to `last` whose event has been reached; `done` if none after it has.
  [[nodiscard]] std::uint64_t newest_reached(std::uint64_t done, std::uint64_t last) noexcept;
  /// The first ticket from `from` on that depends on others, or `newest`.
  [[nodiscard]] std::uint64_t next_dependent(std::uint64_t from,
                                             std::uint64_t newest) const noexcept;
  /// Finds out whether `ticket`, whose work has ended, failed. False when that is not known yet.
  [[nodiscard]] bool settle(std::uint64_t ticket, event_state state) noexcept;
  [[nodiscard]] bool settle_upstream(std::uint64_t ticket,
                                     const cross_runtime_dependency& upstream) noexcept;
  /// Under `advancing_`.
  void let_go(slot& s) noexcept;
  /// `found_there`: the device found it at this ticket, so it may be of work whose ticket came
  /// later.
  void note_failure(std::uint64_t ticket, const error& why, bool found_there) noexcept;
  /// The first failure that the device found at a ticket from `first` on and before `last`.
  [[nodiscard]] std::optional<error> failure_between(std::uint64_t first, std::uint64_t last) const;

  runtime_context& context_;
  sluice::device& device_;
  const stream_id id_;
  native_stream* const native_;
  const bool owned_;
  const bool acquires_;  // a completed event must be acquired for its effects to be visible
  std::atomic<bool> retired_{false};
  bool gone_ = false;  // the native stream may have been destroyed
  std::atomic<bool> slots_given_up_{false};

  // Covers: take the ticket, record the event, publish the slot (and growing the ring); and what
  // must not be queued on a stream that is being retired (`unless_retired`).
  alignas(64) spin_lock submission_;
  // Recorders that hold the core, and whether the runtime is gone. Only the launching thread writes
  // it in the usual case, and it has this cache line for the submission anyway.
  std::atomic<std::uint32_t> core_holds_{0};
  static constexpr std::uint32_t runtime_gone_bit = 0x8000'0000;
  std::shared_ptr<runtime_core> core_of_holders_;  // once the runtime is gone
  std::uint64_t reserved_ = 0;
  unsigned keepers_ = 0;  // of the native stream: a retired one is destroyed by the last of them
  std::unique_ptr<ring> rings_;
  std::atomic<ring*> newest_ring_{nullptr};
  std::atomic<std::uint64_t> ring_start_{1};  // the first ticket of that one
  std::atomic<std::uint64_t> capacity_{0};    // of that one
  std::atomic<std::uint64_t> submitted_{0};
  std::atomic<std::uint64_t> asks_at_{0};           // the ticket whose launch asks the device again
  std::atomic<std::uint64_t> newest_dependent_{0};  // the newest ticket that depends on others

  alignas(64) spin_lock advancing_;
  std::atomic<std::uint64_t> watermark_{0};

  /// Under the mutex: keeps of the oldest failure only that it failed.
  void forget_reason();

  alignas(64) std::atomic<std::uint64_t> newest_failed_{0};
  mutable std::mutex failures_mutex_;
  std::map<std::uint64_t, failed_tickets> failures_;  // by their first
  std::vector<ticket_range> forgotten_;               // whose reasons are gone; older, in order
  std::uint64_t outcomes_from_ = 1;  // tickets before it whose outcome is no longer known
  std::atomic<bool> wants_to_forget_{false};
  reader_epochs outcome_readers_;
  spin_lock forgetting_;            // covers the core's `forget_failures`
  std::uint64_t forget_up_to_ = 0;  // the ticket whose grace period has begun

  // The newest ticket of each other stream (by index) that this stream has been made to wait for.
  std::unique_ptr<chunked_table<std::uint64_t, 64, 1024>> waited_;
  std::atomic<std::uint64_t> waits_{0};

  friend class runtime_core;
  timeline* next_retired_ = nullptr;  // of those with slots; under the core's lock
};

/// Calls `submit`, which enqueues something on the native stream, with that. A stream that is
/// retired meanwhile is destroyed after it. @throws error `stream_misuse`
template <class Submit>
void on_stream(timeline& stream, Submit submit) {
  if (!stream.unless_retired(submit)) {
    throw error(errc::stream_misuse, "the stream has been retired");
  }
}

}  // namespace sluice::detail
