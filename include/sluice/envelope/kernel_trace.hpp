// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/device_id.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/timeline_point.hpp>
#include <sluice/runtime/user_code_scope.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace sluice {

/// A launch as its hooks see it. The strings are valid until the last hook of the launch has
/// returned.
struct kernel_info {
  std::string_view library;               ///< "cuBLAS", "OpenBLAS"
  std::string_view operation;             ///< "gemm"
  std::string_view label;                 ///< the envelope's NVTX label, or empty
  std::string_view tag{};                 ///< the tag of the request, or empty
  element_type type = element_type::f32;  ///< element type of the operation
  device_id device{};                     ///< the device of the launch
  stream_id stream{};                     ///< the stream of the launch
  std::uint64_t launch_id = 0;            ///< unique in the process and increasing
  std::array<std::int64_t, 4> sizes{};    ///< for gemm m, n, k and the number of products
  bool timed = false;                     ///< `after_timestamps` follows
  std::string_view steps{};               ///< the steps of a program: "frames, fft, power, mel"
  std::size_t batch = 1;                  ///< the launches that were made together with this one
};

/// How a launch ended.
struct kernel_outcome {
  const error* failure = nullptr;  ///< nullptr after success; valid during the call
  /// The time from just before `before_enqueue` until the completion engine detected the
  /// completion.
  ///
  /// It includes the wait for earlier work on the stream and the delay of the detection. Under load
  /// it therefore says little about the kernel; `kernel_times` separates the three.
  std::chrono::nanoseconds latency{};
};

/// The times of one launch, on the host's steady clock.
///
///     enqueued ──queueing──> begun ──execution──> ended ──detection──> detected
///
/// `begun` and `ended` are timestamps of the device. On a GPU they are events with timing, accurate
/// to a few microseconds. On a host device the stream's thread reads the clock.
///
/// A timestamp is missing after the loss of the device, if more than 4096 launches of one
/// `device_service` hold timestamps, or if the driver refuses it.
struct kernel_times {
  /// A time on the host's steady clock.
  using time_point = std::chrono::steady_clock::time_point;

  time_point enqueued{};              ///< just before `before_enqueue`
  std::optional<time_point> begun{};  ///< earlier work on the stream, and everything that the
                                      ///< launch waits for, had finished
  std::optional<time_point> ended{};  ///< the launch had finished
  time_point detected{};              ///< the completion engine detected the completion
  /// When the first step of a program began: inputs in host memory have been uploaded by then. It
  /// is known if `step_count` is not 0.
  time_point steps_begun{};
  /// When the first steps of a program had ended, in the order of `kernel_info::steps`. Each began
  /// when the one before it had ended. The downloads of a run to the host follow the last step.
  /// Only on a host device; on a GPU `step_count` is 0.
  std::array<time_point, 16> step_ends{};
  std::size_t step_count = 0;  ///< the number of known times in `step_ends`

  /// The wait for earlier work, with the time of the hook `before_enqueue`. Missing without
  /// `begun`.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> queueing() const noexcept {
    if (!begun) return std::nullopt;
    return *begun - enqueued;
  }
  /// The execution time on the device. On an idle stream it includes the time of the enqueueing
  /// call. Missing without `begun` or `ended`.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> execution() const noexcept {
    if (!begun || !ended) return std::nullopt;
    return *ended - *begun;
  }
  /// The time from the end on the device to its detection. Missing without `ended`.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> detection() const noexcept {
    if (!ended) return std::nullopt;
    return detected - *ended;
  }
};

/// Hooks that a launch calls. Each does nothing by default.
///
///     struct counting_trace final : kernel_trace {
///       void after_complete(const kernel_info&, const kernel_outcome& outcome) override {
///         (outcome.failure == nullptr ? succeeded : failed).fetch_add(1);
///       }
///       std::atomic<int> succeeded{0}, failed{0};
///     };
///
/// Every launch that passed preflight calls each hook once. This includes failed launches and
/// launches that were answered when they were enqueued.
///
/// | hook | thread |
/// |---|---|
/// | `before_enqueue`, `after_enqueue` | the launching thread, under the leases of the launch |
/// | `before_complete` | the launching thread |
/// | `after_complete` | a completion thread; the launching thread with `synchronous` |
/// | `after_timestamps` | the timestamp thread of the `device_service` |
///
/// Launches of several lanes call hooks concurrently. A hook under leases must be brief and must
/// not wait. An exception from a hook is counted and dropped. The first one of the process is
/// reported with its text.
///
/// `after_timestamps` is called only if `wants_timestamps` returns true. Each launch, or each batch
/// of launches, then costs two timestamps on the device; other launches cost nothing. If the host
/// has no memory or no thread for timestamps, the thread that called `after_complete` calls
/// `after_timestamps`.
class SLUICE_EXPORT kernel_trace {
 public:
  kernel_trace() = default;
  kernel_trace(const kernel_trace&) = delete;
  kernel_trace& operator=(const kernel_trace&) = delete;
  virtual ~kernel_trace() = default;

  /// The waits are queued; the closure runs next.
  virtual void before_enqueue(const kernel_info&) {}
  /// The closure has returned. `failure` is its error, or nullptr.
  virtual void after_enqueue(const kernel_info&, const error* /*failure*/) {}
  /// The launch is published. The wait for its completion begins.
  virtual void before_complete(const kernel_info&) {}
  /// The launch has completed or failed. The reply follows, unless it was sent when the launch was
  /// enqueued.
  virtual void after_complete(const kernel_info&, const kernel_outcome&) {}

  /// Whether launches receive timestamps. Queried before each launch, on the launching thread.
  [[nodiscard]] virtual bool wants_timestamps() const noexcept { return false; }
  /// The timestamps of a launch have been read, or are missing.
  ///
  /// Called after the launch's `after_complete`, usually after its reply, and before the
  /// `device_service` has been destroyed. If a reply drops the last owner of the service, the calls
  /// for the launches that still are in flight come later, without timestamps.
  virtual void after_timestamps(const kernel_info&, const kernel_times&) {}
};

/// The number of exceptions from hooks since the process began. Thread-safe.
[[nodiscard]] SLUICE_EXPORT std::uint64_t dropped_trace_exceptions() noexcept;

/// A trace that calls several traces in order. An exception of one does not affect the others.
///
///     const std::vector<std::shared_ptr<kernel_trace>> traces{
///         std::make_shared<chrome_trace>(), std::make_shared<nvtx_trace>()};
///     gemm.trace(std::make_shared<fan_out_trace>(traces));  // a kernel_envelope
class SLUICE_EXPORT fan_out_trace final : public kernel_trace {
 public:
  /// A trace that calls `traces`. Null pointers are skipped.
  explicit fan_out_trace(std::vector<std::shared_ptr<kernel_trace>> traces)
      : traces_(std::move(traces)) {}
  /// Whether at least one of the traces wants timestamps.
  [[nodiscard]] bool wants_timestamps() const noexcept override;
  void before_enqueue(const kernel_info& info) override;
  void after_enqueue(const kernel_info& info, const error* failure) override;
  void before_complete(const kernel_info& info) override;
  void after_complete(const kernel_info& info, const kernel_outcome& outcome) override;
  /// Calls the traces that want timestamps.
  void after_timestamps(const kernel_info& info, const kernel_times& times) override;

 private:
  std::vector<std::shared_ptr<kernel_trace>> traces_;
};

namespace detail {
/// Counts the current exception and reports the first one of the process. Call it in a `catch`
/// block.
void drop_trace_exception() noexcept;

/// Calls one hook of `trace`, which may be nullptr, and drops its exception.
template <class Call>
void call_trace(kernel_trace* trace, Call&& call) noexcept {
  if (trace == nullptr) return;
  const user_code_scope hook;
  try {
    call(*trace);
  } catch (...) {
    drop_trace_exception();
  }
}

/// Whether `trace`, which may be nullptr, wants timestamps.
[[nodiscard]] inline bool wants_timestamps(const kernel_trace* trace) noexcept {
  if (trace == nullptr) return false;
  const user_code_scope hook;
  return trace->wants_timestamps();
}
}  // namespace detail

}  // namespace sluice
