// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/reply_token.hpp>
#include <sluice/envelope/wait_policy.hpp>
#include <sluice/export.hpp>
#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/releasable.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sluice {

namespace detail {
class completion_thread;
}

/// How the runtime detects that a launch has completed.
enum class completion_strategy : std::uint8_t {
  polled,  ///< a thread of the engine queries the streams' events in order; it spins for the time
           ///< of its `wait_policy`, then sleeps in growing steps
  host_function,  ///< the thread sleeps longer, and a host function after each launch wakes it; the
                  ///< status still comes from the event, because after a fault the function never
                  ///< runs
  synchronous,    ///< the launching thread waits; for debugging; launches of several threads on one
                  ///< stream may complete in another order than that of their tickets
};

/// The work that follows the completion of a launch. The engine owns it from `submit` on.
class SLUICE_EXPORT continuation : public releasable {
 public:
  continuation() = default;
  /// Withdraws an announcement by `completion_engine::expect` if the engine has not completed this
  /// object. The runtime must still exist then.
  ~continuation() override { withdraw(); }

  /// Ends the launch. The engine calls it once, when the launch's point has completed or the device
  /// is lost. `failure` is the error of the launch, or nullptr.
  ///
  /// The engine then passes this object to the release list, and gives the returned reply after
  /// that. The reply must therefore own everything that it uses. nullptr: there is none.
  [[nodiscard]] virtual std::shared_ptr<launch_reply> complete(const error* failure) noexcept = 0;

 private:
  friend class completion_engine;
  friend class continuation_list;
  friend class detail::completion_thread;
  /// Ends an announcement: the stream may forget the outcome.
  void withdraw() noexcept;

  continuation* next_ = nullptr;
  detail::timeline* timeline_ = nullptr;
  std::uint64_t ticket_ = 0;
  bool announced_ = false;
  unsigned outcome_epoch_ = 0;  // while announced

  // The queue of a stream, in the first of its continuations. In the others: the previous one.
  continuation* newest_ = nullptr;
  continuation* next_queue_ = nullptr;
  std::uint64_t watermark_ = 0;  // the last completed ticket that was acquired
};

/// Continuations of one stream that are submitted together. Not thread-safe.
class SLUICE_EXPORT continuation_list {
 public:
  continuation_list() = default;
  continuation_list(const continuation_list&) = delete;
  continuation_list& operator=(const continuation_list&) = delete;
  ~continuation_list();

  /// Adds `work`, which `completion_engine::expect` has announced, for a ticket not before that of
  /// the previous one.
  void add(std::uint64_t ticket, std::unique_ptr<continuation> work) noexcept;

 private:
  friend class completion_engine;
  continuation* newest_ = nullptr;  // followed by the earlier ones
  continuation* oldest_ = nullptr;
  std::size_t count_ = 0;
};

/// Runs the continuations of one runtime's launches. Thread-safe.
///
///     completion_engine::expect(stream, *work);  // before the launch takes its ticket
///     const auto point = recorder.commit();
///     engine.submit(stream, point.ticket, std::move(work));
///
/// The engine completes failed and successful launches alike: in the order of each stream's
/// tickets, outside of all locks. docs/concepts/envelope_and_completion.md explains its threads.
/// Each stream has one of them from its first launch on; the streams take turns. A second engine of
/// a runtime goes on with the turns of the first one.
///
/// Between two replies a thread releases a few items of the runtime's release list, and next what
/// the destructors of these items drop. The list therefore holds fewer items than twice the
/// launches in flight plus 1024. Each thread may add what one destructor drops, and each further
/// thread what one reply adds. Not counted are items that another thread is releasing, frees that
/// wait for the reclaim thread, and what a loss of the device leaves. The threads make no driver
/// call for the items, because the reclaim thread executes the frees that may need one.
///
/// After the loss of the device, every continuation completes at once with `device_lost`. Its
/// owners are released once its stream is quiescent.
///
/// In a child of `fork` no continuation completes; envelopes refuse to launch there.
///
/// The destructor waits until no continuation is pending. After a loss that is immediate, and the
/// destructor waits at most a second for quiescent streams. The reclaim thread then takes over the
/// owners of launches on streams that are not quiescent. While the destructor waits, continuations
/// may submit others, but the destructors of owners may not.
///
/// A continuation may destroy the engine, on a thread of the engine. The destructor does not wait
/// then: the threads complete the rest afterwards. Nobody may call `submit` any more, not even a
/// continuation on another thread.
class SLUICE_EXPORT completion_engine {
 public:
  /// The most threads of an engine.
  static constexpr std::size_t most_threads = 64;

  /// An engine for the launches of `runtime`. Starts as many threads as `threads` says, or none if
  /// `strategy` is `synchronous`. With `polled`, `policy` states how long a thread spins after a
  /// completion.
  /// @throws error `invalid_argument` if `strategy` or `policy` is no enumerator, or if `threads`
  /// is 0 or above `most_threads`
  /// @throws std::system_error if a thread cannot be started
  /// @throws std::bad_alloc if there is no memory for the engine
  explicit completion_engine(device_runtime& runtime,
                             completion_strategy strategy = completion_strategy::polled,
                             wait_policy policy = wait_policy::balanced, std::size_t threads = 1);
  completion_engine(const completion_engine&) = delete;
  completion_engine& operator=(const completion_engine&) = delete;
  ~completion_engine();

  /// The strategy passed to the constructor.
  [[nodiscard]] completion_strategy strategy() const noexcept;
  /// The number of threads; 0 with `synchronous`.
  [[nodiscard]] std::size_t threads() const noexcept;

  /// Announces that `work` will be submitted for a later ticket of `stream`. Call it before the
  /// ticket is taken.
  ///
  /// The stream then keeps the ticket's outcome until the engine has completed `work`, or `work` is
  /// destroyed. Without the announcement the ticket counts as failed if thousands of later tickets
  /// have failed before that.
  static void expect(stream_ref stream, continuation& work) noexcept;
  /// Completes `work` when all work on `stream` up to `ticket` has completed. Ticket 0, the one of
  /// the empty point, stands for no work. Does not allocate.
  ///
  /// With `synchronous` the call returns after the completion.
  void submit(stream_ref stream, std::uint64_t ticket, std::unique_ptr<continuation> work) noexcept;
  /// Submits all continuations of `works`, which is empty afterwards.
  void submit(stream_ref stream, continuation_list& works) noexcept;

  /// The number of continuations that have not completed. A snapshot.
  ///
  /// A continuation counts until the reply that its `complete` returned has been given and
  /// destroyed.
  [[nodiscard]] std::size_t pending() const noexcept;

 private:
  struct state;
  void end() noexcept;

  std::shared_ptr<state> state_;
};

}  // namespace sluice
