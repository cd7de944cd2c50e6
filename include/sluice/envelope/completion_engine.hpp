// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/releasable.hpp>

#include <cstdint>
#include <functional>
#include <memory>

namespace sluice {

/// How the end of a launch becomes known.
enum class completion_strategy : std::uint8_t {
  polled,  ///< one thread per engine asks the streams' events, in order: spins briefly, then sleeps
           ///< in growing steps
  host_function,  ///< the same thread sleeps longer, and a function queued behind each launch wakes
                  ///< it; the status still comes from the event, because after a fault such a
                  ///< function never runs
  synchronous,    ///< the launching thread waits; for debugging
};

/// What happens when a launch has completed. Owned by the engine from `submit` on.
class continuation : public releasable {
 public:
  /// Called once, when the launch's point has completed (`failure` is nullptr, or says how it
  /// failed) or the device is lost. Must answer and, before the answer can be seen, call `release`
  /// once: this object may be gone when it returns.
  virtual void complete(const error* failure, const std::function<void()>& release) noexcept = 0;

 private:
  friend class completion_engine;
  continuation* next_ = nullptr;
  detail::timeline* timeline_ = nullptr;
  std::uint64_t ticket_ = 0;
  unsigned outcome_epoch_ = 0;
};

/// Runs the continuations of one runtime's launches: in stream order, outside locks, errors like
/// results. Thread-safe.
///
/// Between two replies its thread releases a few items of the runtime's release list, so that the
/// owners of completed launches that wait there stay fewer than twice what is in flight plus 1024.
/// It makes no driver call for them: a free that may need one is left to the reclaim thread.
///
/// When the device is lost every continuation is completed at once with `device_lost`; what it owns
/// is let go only when its stream is quiescent. The destructor waits until nothing is pending,
/// which on a lost device is at once, and there a second at most for streams to come to rest: what
/// belongs to one that does not is the runtime's from then on.
class completion_engine {
 public:
  /// An engine for the launches of `runtime`. With `polled` and `host_function` it starts a thread.
  /// @throws std::system_error when the thread cannot be started
  explicit completion_engine(device_runtime& runtime,
                             completion_strategy strategy = completion_strategy::polled);
  completion_engine(const completion_engine&) = delete;
  completion_engine& operator=(const completion_engine&) = delete;
  ~completion_engine();

  /// The strategy that the engine was made with.
  [[nodiscard]] completion_strategy strategy() const noexcept;

  /// Says, before the ticket is taken, that `work` will be submitted for a ticket of `stream`: its
  /// outcome is kept until then. A ticket that was not expected counts as failed if thousands of
  /// later ones have failed by the time of `submit`.
  static void expect(stream_ref stream, continuation& work) noexcept;
  /// Completes `work` when the work on `stream` up to `ticket` has completed. Does not throw or
  /// allocate.
  void submit(stream_ref stream, std::uint64_t ticket, std::unique_ptr<continuation> work) noexcept;

  /// Continuations that have not been completed. A snapshot.
  [[nodiscard]] std::size_t pending() const noexcept;

 private:
  struct state;
  static void run(const std::shared_ptr<state>& s) noexcept;

  std::shared_ptr<state> state_;
};

}  // namespace sluice
