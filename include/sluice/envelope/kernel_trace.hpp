#pragma once

#include <sluice/runtime/device_id.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/timeline_point.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace sluice {

/// What is known of a launch before it is made. The strings live until `after_complete` has
/// returned.
struct kernel_info {
  std::string_view library;    ///< "cuBLAS", "OpenBLAS"
  std::string_view operation;  ///< "gemm"
  std::string_view label;      ///< the envelope's NVTX label, or empty
  element_type type = element_type::f32;
  device_id device{};
  stream_id stream{};
  std::uint64_t launch_id = 0;          ///< unique in the process, growing
  std::array<std::int64_t, 4> sizes{};  ///< the operation's own: m, n, k for gemm
};

/// How a launch ended.
struct kernel_outcome {
  const error* failure = nullptr;      ///< nullptr for success; valid during the call
  std::chrono::nanoseconds latency{};  ///< from `before_enqueue` until the completion was known
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
};

/// Hooks that threw since the process began.
[[nodiscard]] std::uint64_t dropped_trace_exceptions() noexcept;

/// Calls several traces, in order.
class fan_out_trace final : public kernel_trace {
 public:
  explicit fan_out_trace(std::vector<std::shared_ptr<kernel_trace>> traces)
      : traces_(std::move(traces)) {}
  void before_enqueue(const kernel_info& info) override;
  void after_enqueue(const kernel_info& info, const error* failure) override;
  void before_complete(const kernel_info& info) override;
  void after_complete(const kernel_info& info, const kernel_outcome& outcome) override;

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
  try {
    call(*trace);
  } catch (...) {
    drop_trace_exception();
  }
}
}  // namespace detail

}  // namespace sluice
