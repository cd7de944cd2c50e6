// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device_id.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/timeline_point.hpp>
#include <sluice/runtime/user_code_scope.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace sluice {

/// What is known of a launch before it is made. The strings live until the last hook of the launch
/// has returned.
struct kernel_info {
  std::string_view library;               ///< "cuBLAS", "OpenBLAS"
  std::string_view operation;             ///< "gemm"
  std::string_view label;                 ///< the envelope's NVTX label, or empty
  element_type type = element_type::f32;  ///< element type of the operation
  device_id device{};                     ///< the device of the launch
  stream_id stream{};                     ///< the stream of the launch
  std::uint64_t launch_id = 0;            ///< unique in the process, growing
  std::array<std::int64_t, 4> sizes{};    ///< the operation's own: m, n, k for gemm
  bool timed = false;                     ///< `after_timestamps` follows
};

/// How a launch ended.
struct kernel_outcome {
  const error* failure = nullptr;  ///< nullptr for success; valid during the call
  /// From just before `before_enqueue` until the completion engine saw that the launch had
  /// completed. It contains the wait for earlier work on the stream and the time until the engine
  /// looked, so it says little about the kernel under load; `kernel_times` tells them apart.
  std::chrono::nanoseconds latency{};
};

/// When a launch waited, ran and was seen to have completed, on the host's steady clock.
///
///     enqueued ──queueing──> begun ──execution──> ended ──detection──> detected
///
/// `begun` and `ended` are the device's own timestamps: events with timing on a GPU, clock reads on
/// the stream's thread on a host device. On a GPU they are accurate to a few microseconds. A
/// timestamp is missing after the loss of the device, when too many launches (4096 for each
/// `device_service`) are in flight, and when the driver refuses it.
struct kernel_times {
  /// A time on the host's steady clock.
  using time_point = std::chrono::steady_clock::time_point;

  time_point enqueued{};              ///< just before `before_enqueue`
  std::optional<time_point> begun{};  ///< the stream reached the launch: the work before it on the
                                      ///< stream, and all that the launch waits for, had finished
  std::optional<time_point> ended{};  ///< the launch had finished
  time_point detected{};              ///< the completion engine saw that it had completed

  /// The wait for earlier work. With the launch's own enqueueing on an idle stream.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> queueing() const noexcept {
    if (!begun) return std::nullopt;
    return *begun - enqueued;
  }
  /// The launch itself on the device.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> execution() const noexcept {
    if (!begun || !ended) return std::nullopt;
    return *ended - *begun;
  }
  /// From the end on the device until the engine looked.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> detection() const noexcept {
    if (!ended) return std::nullopt;
    return detected - *ended;
  }
};

/// Watches launches. All functions are empty by default; override what is of interest. They fire
/// for every launch that passed preflight: failed ones and those answered on enqueueing too, each
/// hook once.
///
/// `before_enqueue`, `after_enqueue` and `before_complete` run in the launching thread,
/// `after_complete` in the completion thread (or the launching one under
/// `completion_strategy::synchronous`); several lanes call concurrently. The first two run while
/// leases are held: be brief and never wait. An exception is counted and dropped; the first one of
/// the process is reported with its text.
///
/// A trace that overrides `wants_timestamps` to return true gets `after_timestamps`, too, from a
/// thread of the `device_service` that does nothing else. Each of its launches then costs two
/// timestamps on the device and one allocation; launches without such a trace cost nothing.
class kernel_trace {
 public:
  kernel_trace() = default;
  kernel_trace(const kernel_trace&) = delete;
  kernel_trace& operator=(const kernel_trace&) = delete;
  virtual ~kernel_trace() = default;

  /// The waits are queued, the library call comes next.
  virtual void before_enqueue(const kernel_info&) {}
  /// The library call has returned; `failure` is its error, or nullptr.
  virtual void after_enqueue(const kernel_info&, const error* /*failure*/) {}
  /// The launch is published; waiting for its completion begins.
  virtual void before_complete(const kernel_info&) {}
  /// It has completed, or failed; the reply follows, unless it was sent on enqueueing.
  virtual void after_complete(const kernel_info&, const kernel_outcome&) {}

  /// Whether launches are to be timed on the device. Asked before each launch.
  [[nodiscard]] virtual bool wants_timestamps() const noexcept { return false; }
  /// The timestamps of a launch have been read, or are missing: some time after its
  /// `after_complete`, usually after the reply too, and before the `device_service` has ended.
  virtual void after_timestamps(const kernel_info&, const kernel_times&) {}
};

/// Hooks that threw since the process began.
[[nodiscard]] std::uint64_t dropped_trace_exceptions() noexcept;

/// Calls several traces, in order.
class fan_out_trace final : public kernel_trace {
 public:
  /// Calls `traces`. Null pointers are skipped.
  explicit fan_out_trace(std::vector<std::shared_ptr<kernel_trace>> traces)
      : traces_(std::move(traces)) {}
  /// Whether one of them does.
  [[nodiscard]] bool wants_timestamps() const noexcept override;
  void before_enqueue(const kernel_info& info) override;
  void after_enqueue(const kernel_info& info, const error* failure) override;
  void before_complete(const kernel_info& info) override;
  void after_complete(const kernel_info& info, const kernel_outcome& outcome) override;
  /// Calls those that want timestamps.
  void after_timestamps(const kernel_info& info, const kernel_times& times) override;

 private:
  std::vector<std::shared_ptr<kernel_trace>> traces_;
};

namespace detail {
/// Counts the exception that is being handled, and reports the first one. In a `catch` block.
void drop_trace_exception() noexcept;

/// Calls one hook of `trace`, if there is one; what it throws is dropped.
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
}  // namespace detail

}  // namespace sluice
