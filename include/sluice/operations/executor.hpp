// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/reply_token.hpp>
#include <sluice/export.hpp>
#include <sluice/operations/lane_choice.hpp>
#include <sluice/operations/operation_result.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/owner_memory.hpp>
#include <sluice/operations/request_options.hpp>
#include <sluice/operations/tensors.hpp>
#include <sluice/runtime/stream.hpp>
#include <sluice/runtime/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace sluice {

class bulk;
struct bulk_results;
class device_service;
class kernel_trace;
class lane;
struct run;
struct run_to_host;
struct prepare;
struct prepared;
namespace detail {
class operation_request;
}  // namespace detail

/// Options of an `executor`.
struct executor_options {
  /// The largest number of requests that wait. Further ones are answered with `overloaded`.
  std::size_t max_waiting = 65536;
  /// The largest size of the requests that wait, in bytes of host memory. The requests of one
  /// sender take at most half of it. A request that is larger than this half counts as the half,
  /// and is refused if another request of its sender waits. A program counts once for its runs.
  std::size_t max_waiting_bytes = std::size_t{256} << 20U;
  /// The largest number of requests of one sender that wait; 0: half of `max_waiting`.
  std::size_t max_waiting_of_sender = 0;
  /// The largest size of the plans that are kept for later requests, in bytes of host and device
  /// memory. The plans that were used the longest time ago are dropped. Plans above a sixteenth of
  /// it take at most three quarters, so that they leave room for small ones. The last plan is kept
  /// even if it is larger alone. A launch keeps its plan beyond that. The copies of a program's
  /// constants do not count, because all executables of the program share them. Plans with device
  /// memory, also with such copies, are dropped if there is no memory for an output, a workspace or
  /// another plan.
  std::size_t max_plan_bytes = std::size_t{512} << 20U;
  /// The largest size of one plan in host memory, in bytes. A request that needs a larger one is
  /// answered with `unsupported`. 0: the limit of the service; see `request_limits`.
  std::size_t max_host_bytes_of_plan = 0;
  /// The largest work of a request and of making its plan. A request with more is answered with
  /// `unsupported`. 0: the limit of the service; see `request_limits`.
  ///@{
  double max_work = 0;
  double max_planning_work = 0;
  ///@}
  /// The largest size of one plan in device memory, in bytes, with the workspace of its launches
  /// and without the copies of constants. A request that needs a larger one is answered with
  /// `unsupported`.
  std::size_t max_device_bytes_of_plan = std::size_t{16} << 30U;
  stream_priority priority = stream_priority::normal;  ///< of the stream of the lane
};

/// Runs operations on a lane of a device. Requests wait in a bounded queue.
///
///     executor blas(service);
///     blas.submit(gemm{.a = a, .b = b}, {}, token);
///
/// A request is answered exactly once. Its arguments are checked before it takes a place in the
/// queue: a refused request queues, plans and allocates nothing. It waits for its plan, which the
/// planner of the device makes, and for room on the lane. Requests pass each other, unless one
/// writes bytes that the other one uses. Among those that may be launched, the highest priority
/// comes first. Senders of one priority take turns, and the requests of a sender come in the order
/// of their arrival.
///
/// One thread owns an executor: only this thread calls its functions. It also destroys the
/// executor, unless the function of `on_wake` does so.
class SLUICE_EXPORT executor {
 public:
  /// An executor with a lane of its own.
  /// @throws error as `lane`
  explicit executor(std::shared_ptr<device_service> service,
                    std::shared_ptr<kernel_trace> trace = nullptr, executor_options options = {});
  executor(const executor&) = delete;
  executor& operator=(const executor&) = delete;
  /// Answers the waiting requests with `cancelled`, then waits for a plan that is being made for
  /// them. Does not wait for launches in flight, which complete.
  ~executor();

  /// Sets the function that asks the owner to call `work`. Any thread may call that function, also
  /// during a call of the owner. It must own everything that it uses, and must not block or throw.
  /// It may destroy the executor. Call `on_wake` once, before the first request.
  void on_wake(std::function<void()> wake);
  /// Sets a function that tells whether the owner has further requests at hand. A request that may
  /// share a launch with them then waits until the owner is woken, which it is soon: its wake
  /// should come after these requests. Without the function it is launched as soon as there is
  /// room. Call it once, before the first request. The function must not throw. With it, calls of
  /// the owner call the function of `on_wake`, which must not destroy the executor then.
  void on_more(std::function<bool()> more);
  /// @cond for actors with several lanes
  /// Makes the executor that of one lane of an actor: it tells `lane` of the requests that wait in
  /// the queue and shares the limits of the queue with the other lanes. If lanes are opened on
  /// demand, it makes the plans that other lanes have made. `lane` must live until the executor
  /// ends. Call it once, after `on_wake` and before the first request.
  /// @throws std::bad_alloc if there is no memory
  void join_lanes(detail::lane_choice::lane& lane);
  /// What the executor has of the plans of the other lanes, and of the library objects that
  /// `prepare` has asked for.
  enum class shared_plans : std::uint8_t {
    missing,      ///< some are still to be made
    made,         ///< it has all of them
    unavailable,  ///< one cannot be made, or together they exceed `max_plan_bytes`
  };
  [[nodiscard]] shared_plans plans_of_other_lanes() const noexcept;
  /// @endcond
  /// Has the planner make the library objects of an operation, before a request needs them. If that
  /// fails, the first request tries again.
  void prepare(const operation_descriptor& descriptor) noexcept;

  /// Runs `operation` for `sender` and answers `token` with its result, or with all of its results
  /// if the operation has several outputs.
  template <class Operation>
  void submit(Operation operation, const request_options& options,
              reply_token<operation_result<Operation>> token, request_sender sender = {}) noexcept {
    submit_operation(detail::find_descriptor(operation), &operation, options, &token, sender);
  }
  /// Runs a program for `sender` and answers `token` with its results.
  void submit(run request, const request_options& options, reply_token<tensors> token,
              request_sender sender = {}) noexcept;
  /// Likewise, and copies the results to host memory.
  void submit(run_to_host request, const request_options& options, reply_token<host_tensors> token,
              request_sender sender = {}) noexcept;
  /// Makes the executable of a program for `sender`, and answers `token` with what is known of it.
  void submit(sluice::prepare request, const request_options& options, reply_token<prepared> token,
              request_sender sender = {}) noexcept;
  /// Runs `operations` for `sender`, as requests with the same options, and answers
  /// `token` when all have been answered. Those that may share a launch wait for the last one.
  void submit(bulk operations, const request_options& options, reply_token<bulk_results> token,
              request_sender sender = {}) noexcept;
  /// Answers requests whose deadline has passed, and launches what waits, as far as there is room.
  /// Called by the owner after each wake.
  void work() noexcept;

  /// Answers the requests of `sender` with the id `id` with `cancelled`; see `cancel_request`.
  void cancel(request_sender sender, std::uint64_t id) noexcept;
  /// Drops the waiting requests of `sender` with `request_options::while_alive`, because it has
  /// ended.
  void sender_ended(request_sender sender) noexcept;

  /// The requests that wait.
  [[nodiscard]] queue_status status() const noexcept;
  /// The number of requests that wait.
  [[nodiscard]] std::size_t waiting() const noexcept { return status().requests; }
  /// The lane of the executor.
  [[nodiscard]] sluice::lane& lane() noexcept;

 private:
  friend class bulk;
  class core;
  /// While it exists, requests that may share a launch wait for later ones.
  class SLUICE_EXPORT gathering {
   public:
    /// Those of `sender` that wait keep `shared_bytes` of host memory together.
    gathering(executor& executor, request_sender sender, std::size_t shared_bytes) noexcept;
    gathering(const gathering&) = delete;
    gathering& operator=(const gathering&) = delete;
    ~gathering();
    /// Adds `bytes` to `shared_bytes`.
    void share(std::size_t bytes) noexcept { shared_bytes_ += bytes; }

   private:
    executor& executor_;
    request_sender sender_;
    std::uint64_t last_number_;  // before it
    std::size_t shared_bytes_;
  };

  /// Runs the operation of `descriptor` at `operation`. The token at `token` is a `reply_token` for
  /// the `operation_result` of the operation. Both are moved from.
  void submit_operation(const operation_descriptor& descriptor, void* operation,
                        const request_options& options, void* token,
                        request_sender sender) noexcept;
  /// The memory of requests.
  [[nodiscard]] detail::owner_memory& memory() noexcept;
  void submit(detail::owner_pointer<detail::operation_request> request) noexcept;

  std::unique_ptr<core> core_;
};

}  // namespace sluice
