// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/kernel_trace.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace sluice {

/// What a trace does with a launch when its buffer is full.
enum class when_full : std::uint8_t {
  drop_newest,       ///< leaves it out: the trace shows the beginning
  overwrite_oldest,  ///< a ring: the trace shows the end
};

/// How much a `chrome_trace` keeps, and what.
struct chrome_trace_options {
  std::size_t capacity = 65'536;            ///< launches; less than 300 bytes each
  when_full full = when_full::drop_newest;  ///< what happens above the capacity
  bool timestamps = true;  ///< time launches on the device; see `kernel_trace::wants_timestamps`
};

/// Collects launches and writes them as a Chrome/Perfetto trace (JSON, "Trace Event Format"), to be
/// opened in ui.perfetto.dev or chrome://tracing.
///
///     auto trace = std::make_shared<chrome_trace>(
///         chrome_trace_options{.capacity = 10'000, .full = when_full::overwrite_oldest});
///
/// Each stream is a track with a slice ("launch") for each launch, from when the device began it to
/// when the device finished it. The time before ("queueing") and the time after, until the
/// completion engine looked ("detection"), are asynchronous slices with the launch's id. The host's
/// enqueueing calls are slices of the launching threads.
///
/// A launch without timestamps is marked (`"timestamps": "missing"`, or "off" if the trace was made
/// without). Its slice begins after its enqueueing and after the launch before it, and ends when
/// its completion was detected or the next launch on the stream began.
///
/// The buffer is bounded and made at construction: hooks take no lock and allocate nothing. Once it
/// is full and its launches have completed, a hook costs one relaxed load; leaving a launch out
/// costs a count on one of sixteen cache lines besides.
class chrome_trace final : public kernel_trace {
 public:
  /// Keeps the first `capacity` launches. @throws std::bad_alloc
  explicit chrome_trace(std::size_t capacity = 65'536)
      : chrome_trace(chrome_trace_options{.capacity = capacity}) {}
  /// @throws std::bad_alloc
  explicit chrome_trace(const chrome_trace_options& options);
  ~chrome_trace() override;

  void before_enqueue(const kernel_info& info) override;
  void after_enqueue(const kernel_info& info, const error* failure) override;
  void after_complete(const kernel_info& info, const kernel_outcome& outcome) override;
  [[nodiscard]] bool wants_timestamps() const noexcept override;
  void after_timestamps(const kernel_info& info, const kernel_times& times) override;

  /// The trace as JSON: the launches that have completed by now. Waits up to a second for the
  /// timestamps of these launches; one that is not there by then is missing. Any thread, at any
  /// time, but not from a hook.
  [[nodiscard]] std::string json() const;
  /// Launches that are not in the trace: the buffer was full, or they have been overwritten.
  [[nodiscard]] std::uint64_t left_out() const noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace sluice
