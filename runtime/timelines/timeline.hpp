// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/chunked_table.hpp"
#include "runtime/sync/hazard_pointer.hpp"
#include "runtime/sync/spin_lock.hpp"
#include "runtime/timelines/completion_words.hpp"
#include "runtime/timelines/cross_runtime_dependency.hpp"
#include "runtime/timelines/error_words.hpp"
#include "runtime/timelines/ticket_failures.hpp"

#include <sluice/runtime/device.hpp>
#include <sluice/runtime/memory_resource.hpp>
#include <sluice/runtime/small_vector.hpp>
#include <sluice/runtime/stream.hpp>
#include <sluice/runtime/timeline_point.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::detail {

class runtime_context;
class runtime_core;

/// The points that a launch depends on, at most one for each block. Up to eight need no heap
/// memory.
using dependency_points = small_vector<timeline_point, 8>;

/// The record of one stream: its tickets, their pooled events, and the watermark.
///
///     t.reserve();                        // may allocate
///     // enqueue the work on t.native()
///     const auto ticket = t.submit();     // allocates nothing
///     t.wait_until(ticket);
///
/// A timeline lives as long as the runtime's core, and longer than its stream. Its events and
/// tables are freed once the stream has been retired and everything on it has completed.
/// Thread-safe unless a function states otherwise. docs/concepts/timelines_and_hazards.md explains
/// the model.
class timeline {
 public:
  /// With `owned`, `retire` destroys the native stream.
  /// @throws error `library_failure` if an event cannot be created
  /// @throws error `device_lost`
  /// @throws std::bad_alloc
  timeline(runtime_context& context, stream_id id, native_stream* native, bool owned);
  timeline(const timeline&) = delete;
  timeline& operator=(const timeline&) = delete;
  ~timeline();

  /// The record that a reference names, or nullptr.
  [[nodiscard]] static timeline* of(stream_ref stream) noexcept { return stream.timeline_; }
  /// Takes over the stream of a reservation, which the caller must use up. nullptr if there is
  /// none.
  [[nodiscard]] static timeline* take(point_reservation& place) noexcept {
    return std::exchange(place.timeline_, nullptr);
  }
  [[nodiscard]] stream_ref ref() noexcept { return stream_ref(this); }

  /// The core of the timeline's runtime. Defined with the core.
  [[nodiscard]] runtime_core& core() const noexcept;
  [[nodiscard]] sluice::device& device() const noexcept { return device_; }
  [[nodiscard]] stream_id id() const noexcept { return id_; }
  [[nodiscard]] native_stream* native() const noexcept { return native_; }
  /// The point of the newest ticket.
  [[nodiscard]] timeline_point newest() const noexcept {
    return {id_, submitted_.load(std::memory_order_acquire)};
  }
  /// The newest ticket that is known to have completed. Does not query the device.
  [[nodiscard]] std::uint64_t watermark() const noexcept {
    return watermark_.load(std::memory_order_acquire);
  }
  /// Whether `ticket` is known to have completed. Does not query the device.
  [[nodiscard]] bool completed(std::uint64_t ticket) const noexcept {
    return watermark() >= ticket;
  }

  /// Whether `ticket` may be taken to have completed where nothing is ordered by the answer.
  [[nodiscard]] bool seems_completed(std::uint64_t ticket) const noexcept {
    return watermark_.load(std::memory_order_relaxed) >= ticket;
  }
  /// Streams with one group are those of the lanes of one actor. Set before their launches.
  ///@{
  void set_group(const void* group) noexcept { group_.store(group, std::memory_order_relaxed); }
  [[nodiscard]] bool is_beside(const timeline& other) const noexcept {
    const auto* const group = group_.load(std::memory_order_relaxed);
    return this == &other ||
           (group != nullptr && group == other.group_.load(std::memory_order_relaxed));
  }
  ///@}

  /// Reserves `count` event slots, so that as many tickets can be taken without an allocation.
  /// @throws error `stream_misuse` if the stream was adopted and is being captured
  /// @throws error `library_failure` if an event cannot be created
  /// @throws error `device_lost`
  /// @throws std::bad_alloc
  void reserve(std::size_t count = 1);
  /// Cancels `count` reservations.
  void unreserve(std::size_t count = 1) noexcept;
  /// Whether a launch is in progress. It may be blocked in the driver.
  [[nodiscard]] bool has_reservations() noexcept {
    const std::unique_lock lock(submission_, std::try_to_lock);
    return !lock || reserved_ != 0;
  }

  /// Takes the next ticket for all work enqueued so far, and records its event. Uses up one
  /// reservation.
  /// @param dependencies unfinished points of this runtime; if one of them fails, this ticket fails
  /// @param failure the error of a launch that has already failed, or nullptr
  /// @param first the next ticket at the time when the launch began. A failure of the launch's work
  /// is noted at the ticket taken next after that work, so it is at one of the tickets from `first`
  /// on.
  /// @param upstream a ticket of another runtime, for which the stream already waits; if it fails,
  /// this ticket fails
  /// @param errors the error word of the launch, or nullptr. If the launch finds an error, this
  /// ticket fails. The timeline gives the word back, unless this call throws.
  /// @throws error `device_lost`; no ticket was taken
  /// @throws error `stream_misuse` if the stream has been retired; no ticket was taken
  std::uint64_t submit(dependency_points&& dependencies = {}, const error* failure = nullptr,
                       std::uint64_t first = no_ticket,
                       std::unique_ptr<cross_runtime_dependency> upstream = nullptr,
                       launch_errors* errors = nullptr);
  /// Takes the next `count` tickets for launches that have been enqueued together, and records one
  /// event behind all of them. Uses up `count` reservations. Returns the first ticket. Not for
  /// devices that report the failure of single tasks.
  ///
  /// `dependencies_function(i, first_ticket)` returns the dependencies of launch `i`, where launch
  /// `j` has the ticket `first_ticket` + j. `errors_function(set)` calls `set(i, errors)` for each
  /// launch `i` with an error word, after which this call does not throw. Both must not throw, and
  /// are called under a lock. `failure` and `first` are those of `submit`, for all of the launches.
  /// @throws error as `submit`
  template <class DependenciesOf, class ErrorsOf>
  std::uint64_t submit_together(std::size_t count, const error* failure, std::uint64_t first,
                                const DependenciesOf& dependencies_function,
                                const ErrorsOf& errors_function) {
    const std::lock_guard lock(submission_);
    reserved_ -= count;
    require_open();
    const auto first_ticket = submitted_.load(std::memory_order_relaxed) + 1;
    const auto last = first_ticket + count - 1;
    for (std::size_t i = 0; i < count; ++i) {
      fill(first_ticket + i, first, dependencies_function(i, first_ticket));
    }
    device_.record(slot_of(last).event, last, native_);
    errors_function(
        [&](std::size_t i, launch_errors* errors) { slot_of(first_ticket + i).errors = errors; });
    for (auto ticket = first_ticket; ticket <= last; ++ticket) finish(ticket, last, failure);
    submitted_.store(last, std::memory_order_release);
    return first_ticket;
  }
  /// The value of `first` for a launch without one.
  static constexpr auto no_ticket = ~std::uint64_t{0};

  /// Queries the device and advances the watermark. Does nothing if another thread is advancing it.
  /// Returns the watermark.
  std::uint64_t advance() noexcept;
  /// Blocks until `ticket` has completed, and advances the watermark meanwhile.
  /// @throws error `device_lost` if this device is lost, or `waiting_device`, another device that
  /// the caller works for
  void wait_until(std::uint64_t ticket, const sluice::device* waiting_device = nullptr);

  /// The error of `ticket`, which has completed. Empty if it succeeded. See
  /// `ticket_failures::of`.
  [[nodiscard]] std::optional<error> failure_of(std::uint64_t ticket) const {
    return failures_.of(ticket);
  }
  [[nodiscard]] ticket_failures& failures() noexcept { return failures_; }
  [[nodiscard]] reader_epochs& outcome_readers() noexcept { return failures_.readers(); }
  /// The oldest ticket of `source` on whose outcome an unsettled ticket of this stream depends, or
  /// `no_ticket`.
  [[nodiscard]] std::uint64_t oldest_dependency_on(stream_id source) noexcept;
  /// Makes the effects of the completed work up to `ticket` visible to the calling thread.
  void acquire(std::uint64_t ticket) noexcept;

  /// Orders later work of this stream after `ticket` of `source`. The caller has a reservation on
  /// this stream. Queues no wait if the order is known to hold already. Returns whether a wait was
  /// queued.
  /// @throws error `device_lost`
  /// @throws error `library_failure` if the device refuses the wait
  /// @throws error `stream_misuse` if the stream has been retired
  bool wait_for(timeline& source, std::uint64_t ticket);

  /// Orders later work of `stream`, which belongs to `target`, after `ticket`. Both devices must
  /// be of the same kind.
  /// @throws error `stream_misuse` on a host device if the event of `ticket` was not recorded
  /// @throws error `device_lost`
  void let_wait(sluice::device& target, native_stream* stream, std::uint64_t ticket);
  /// Declares that the work of `ticket`, which is not known to have completed, fails.
  void fail(std::uint64_t ticket, const error& cause) noexcept {
    note_failure(ticket, cause, false);
  }

  /// Drops the dependencies of unsettled tickets on other runtimes. Only for when no reader will
  /// ask whether those tickets fail.
  void forget_upstream() noexcept;

  /// The number of waits that `wait_for` has queued, for statistics.
  [[nodiscard]] std::uint64_t waits() const noexcept {
    return waits_.load(std::memory_order_relaxed);
  }

  /// Keeps the core alive until `let_go_of_core`. Each timeline counts its own recorders, so
  /// launches on different streams share no counter. Returns false if the runtime has been
  /// destroyed: the caller then takes a share of the core.
  [[nodiscard]] bool hold_core() noexcept;
  /// Ends one hold. If the runtime has been destroyed and this was the last hold, returns a share
  /// of the core, which the caller drops after everything else.
  [[nodiscard]] std::shared_ptr<runtime_core> let_go_of_core() noexcept;
  /// Keeps `core` alive until the last hold ends. Called once, at the end of the runtime.
  void leave_core_to_holders(std::shared_ptr<runtime_core> core) noexcept;

  /// Takes a last ticket, and destroys an owned native stream after its queued work. Idempotent.
  void retire() noexcept;
  /// Blocks until all work queued so far has finished, even if the stream is retired meanwhile.
  /// @throws error `stream_misuse` if the stream is being captured
  /// @throws error `device_lost`
  void synchronize();
  /// Whether this is an adopted stream that has not been retired and is being captured.
  [[nodiscard]] bool captured() noexcept;
  /// Calls `function` with the native stream, unless that has been retired. The stream is not
  /// retired during the call, so the call must be short. Returns whether `function` was called.
  template <class Function>
  bool unless_retired(Function function) noexcept(noexcept(function(nullptr))) {
    const std::lock_guard lock(submission_);
    if (retired()) return false;
    function(native_);
    return true;
  }
  /// Frees events and tables, if the stream is retired and everything on it is known to have
  /// completed. Returns whether they have been freed. Never blocks: the caller retries.
  bool give_up_slots() noexcept;
  [[nodiscard]] bool retired() const noexcept { return retired_.load(std::memory_order_acquire); }
  /// Whether no work of this stream touches memory any more, after the loss of the device.
  [[nodiscard]] bool quiescent() noexcept;

  /// The turn of this stream, from 1 on, when streams are distributed among threads. The first call
  /// takes it from `turns`.
  [[nodiscard]] std::uint64_t turn(std::atomic<std::uint64_t>& turns) noexcept {
    auto value = turn_.load(std::memory_order_relaxed);
    if (value != 0) return value;
    const auto next = turns.fetch_add(1, std::memory_order_relaxed) + 1;
    return turn_.compare_exchange_strong(value, next, std::memory_order_relaxed) ? next : value;
  }

 private:
  struct slot {
    native_event* event = nullptr;
    /// The ticket whose event stands for the ticket of this slot: its own, or the last one of those
    /// that were taken together.
    std::atomic<std::uint64_t> event_ticket{0};
    std::uint64_t first = no_ticket;
    dependency_points dependencies;
    std::unique_ptr<cross_runtime_dependency> upstream;
    launch_errors* errors = nullptr;  // until the ticket is settled
    /// Whether this ticket may fail although its work has ended: because another one fails, or
    /// because the work has found an error.
    [[nodiscard]] bool depends() const noexcept {
      return !dependencies.empty() || upstream || errors != nullptr;
    }
  };
  /// The slots of the tickets from `start` until the first ticket of a larger ring. It never moves,
  /// and is freed together with all other rings.
  struct ring {
    std::uint64_t start = 0;
    std::uint64_t mask = 0;
    std::vector<slot> slots{};
    std::unique_ptr<ring> previous{};
  };

  /// Keeps the native stream until `let_go_of_stream`. False if the stream has been retired.
  [[nodiscard]] bool keep_stream() noexcept;
  /// Ends one `keep_stream`. The last one destroys a retired, owned stream.
  void let_go_of_stream() noexcept;
  /// Makes a ring with events in its slots.
  [[nodiscard]] std::unique_ptr<ring> make_ring(std::uint64_t start, std::size_t capacity,
                                                std::unique_ptr<ring> previous);
  /// The slot of a ticket. Only for threads that take tickets, advance over unfinished ones, or
  /// hold a hazard pointer.
  [[nodiscard]] slot& slot_of(std::uint64_t ticket) const noexcept;
  /// The event that stands for a ticket, with the ticket at which it was recorded.
  struct recorded_event {
    native_event* event;
    std::uint64_t value;
  };
  [[nodiscard]] recorded_event event_of(std::uint64_t ticket) const noexcept {
    const auto event_ticket = slot_of(ticket).event_ticket.load(std::memory_order_relaxed);
    return {slot_of(event_ticket).event, event_ticket};
  }
  /// @throws error `stream_misuse` if the stream has been retired
  void require_open() const;
  /// Fills the slot of the next ticket.
  void fill(std::uint64_t ticket, std::uint64_t first, dependency_points&& dependencies) noexcept;
  /// Completes the slot of a ticket before its publication. Its event has been recorded, because a
  /// thread that comes too late with the slot's previous ticket may read the slot.
  void finish(std::uint64_t ticket, std::uint64_t event_ticket, const error* failure) noexcept;
  /// Destroys the events of a ring and of all older ones.
  void destroy_events(const ring* newest) noexcept;
  /// Takes the next ticket, under `submission_`. If it throws, `upstream` stays with the caller,
  /// because it may hold the last share of another core, which must not be dropped under that lock.
  std::uint64_t take_ticket(dependency_points&& dependencies, const error* failure,
                            std::uint64_t first,
                            std::unique_ptr<cross_runtime_dependency>& upstream,
                            launch_errors* errors);
  /// Advances at intervals while more than half of the newest ring is in use, and at every call
  /// once all of it is. Reservations do not count as use.
  void ask_now_and_then() noexcept;
  [[nodiscard]] event_state query(std::uint64_t ticket) noexcept;
  /// Has the stream write a ticket to its word if nothing else is in flight. Returns whether it
  /// does. Called before the record of the ticket's event, so that a recorded event stands for the
  /// write, too.
  [[nodiscard]] bool write_word(std::uint64_t ticket) noexcept;
  /// Returns the word, unless the stream may still write it. Nothing uses it any more.
  void give_back_word() noexcept;
  /// `advance`, under its lock. Returns the watermark.
  std::uint64_t advance_locked() noexcept;
  /// The newest ticket up to `last` whose event has completed, or `completed_ticket` if there is
  /// none after it.
  [[nodiscard]] std::uint64_t newest_reached(std::uint64_t completed_ticket,
                                             std::uint64_t last) noexcept;
  /// The first ticket not before `ticket` that depends on others, or `newest`.
  [[nodiscard]] std::uint64_t next_dependent(std::uint64_t ticket,
                                             std::uint64_t newest) const noexcept;
  /// Determines whether `ticket`, whose work has ended, failed. False if that is not known yet.
  [[nodiscard]] bool settle(std::uint64_t ticket, event_state state) noexcept;
  /// Determines whether the dependency on another runtime failed. False if that is not known yet.
  [[nodiscard]] bool settle_upstream(std::uint64_t ticket,
                                     const cross_runtime_dependency& upstream) noexcept;
  /// Makes `ticket` fail if its work has found an error, and gives back the word. Not if it has
  /// failed already: what it has found in the results of a failed launch is no error of its own.
  void settle_errors(std::uint64_t ticket, slot& s, event_state state) noexcept;
  /// Drops the dependency of a slot on another runtime. Under `advancing_`.
  void let_go(slot& s) noexcept;
  /// `forget_upstream`, under `advancing_`.
  void drop_upstream() noexcept;
  /// Notes a failure. With `found_there` the device found it at this ticket, so it may belong to
  /// work whose ticket was taken later.
  void note_failure(std::uint64_t ticket, const error& cause, bool found_there) noexcept;

  runtime_context& context_;
  sluice::device& device_;
  const stream_id id_;
  native_stream* const native_;
  const bool owned_;
  const bool acquires_;  // the effects of completed work must be acquired from its event
  std::atomic<std::uint64_t> turn_{0};  // 0: none yet
  std::atomic<bool> retired_{false};
  bool gone_ = false;  // the native stream may have been destroyed
  std::atomic<bool> slots_given_up_{false};

  // Covers a ticket, the record of its event, the publication of its slot, and the growth of the
  // ring. Also covers calls that must not meet a stream being retired (`unless_retired`).
  alignas(64) spin_lock submission_;
  // Counts the recorders that hold the core; one bit marks a destroyed runtime. It shares the cache
  // line of `submission_`, because the launching thread needs both.
  std::atomic<std::uint32_t> core_holds_{0};
  static constexpr std::uint32_t runtime_gone_bit = 0x8000'0000;
  std::shared_ptr<runtime_core> core_of_holders_;  // once the runtime has been destroyed
  std::uint64_t reserved_ = 0;
  unsigned keepers_ = 0;  // users of the native stream: the last one destroys it if it is retired
  std::unique_ptr<ring> rings_;
  std::atomic<ring*> newest_ring_{nullptr};
  std::atomic<std::uint64_t> ring_start_{1};  // the first ticket of the newest ring
  std::atomic<std::uint64_t> capacity_{0};    // of the newest ring
  std::atomic<std::uint64_t> submitted_{0};
  // The launch of this ticket queries the device again.
  std::atomic<std::uint64_t> query_ticket_{0};
  std::atomic<std::uint64_t> newest_dependent_{0};  // the newest ticket that depends on others

  // nullptr: events alone tell of completed work. `query` reads what the stream has written.
  completion_words::word* word_ = nullptr;
  bool word_is_spoiled_ = false;               // a write may come that belongs to no ticket
  std::atomic<std::uint64_t> word_ticket_{0};  // the newest ticket that the stream writes

  alignas(64) spin_lock advancing_;
  std::atomic<std::uint64_t> watermark_{0};
  std::atomic<const void*> group_{nullptr};
  std::uint64_t dropped_upstream_ = 0;  // the last ticket that `drop_upstream` has visited

  ticket_failures failures_;

  // The newest ticket of each other stream, by its index, that this stream already waits for.
  std::unique_ptr<chunked_table<std::uint64_t, 64, 1024>> waits_by_stream_;
  std::atomic<std::uint64_t> waits_{0};

  friend class runtime_core;
  timeline* next_retired_ = nullptr;  // the next retired timeline with slots; under the core's lock
};

/// Calls `submit`, which enqueues work, with the native stream. If the stream is retired meanwhile,
/// it is destroyed after that work.
/// @throws error `stream_misuse` if the stream has been retired
template <class Submit>
void on_stream(timeline& stream, Submit submit) {
  if (!stream.unless_retired(submit)) {
    throw error(errc::stream_misuse, "the stream has been destroyed");
  }
}

}  // namespace sluice::detail
