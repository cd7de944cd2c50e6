// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/export.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace sluice {

/// The treatment of a new launch when the buffer of a trace is full.
enum class when_full : std::uint8_t {
  drop_newest,       ///< drops the new launch: the trace shows the beginning
  overwrite_oldest,  ///< overwrites the oldest completed launch: the trace shows the end; drops the
                     ///< new launch if none has completed
};

/// Options of a `chrome_trace`.
struct chrome_trace_options {
  std::size_t capacity = 65'536;            ///< launches kept; each takes at most 768 bytes
  when_full full = when_full::drop_newest;  ///< the treatment of launches above the capacity
  bool timestamps = true;  ///< stamps launches on the device; see `kernel_trace::wants_timestamps`
};

/// A trace that collects launches and writes them as JSON for Chrome and Perfetto.
///
///     auto trace = std::make_shared<chrome_trace>(
///         chrome_trace_options{.capacity = 10'000, .full = when_full::overwrite_oldest});
///     gemm.trace(trace);  // a kernel_envelope
///     ...
///     std::ofstream("trace.json") << trace->json();
///
/// The format is the "Trace Event Format". ui.perfetto.dev and chrome://tracing open the file.
///
/// Each stream is a track. A launch is a slice ("launch") of its stream's track, from its begin to
/// its end on the device. The time before the begin ("queueing") and the time from the end until
/// the completion engine detected it ("detection") are asynchronous slices with the launch's id.
/// The time that a request waits in the queue of an actor is in no slice.
/// The enqueueing calls of the host are slices of the launching threads, whose numbers are those of
/// the operating system. The calls of a batch overlap: the slice of its first member shows the
/// common call, and each other one begins where the previous one ends.
///
/// On a host device the first 16 steps of a program are slices ("step") within that of its launch.
/// The upload of inputs in host memory is the time before the first one, and the download of a
/// `run_to_host` that behind the last one. On a GPU each step is an NVTX range, unless the program
/// is captured.
///
/// The arguments of a launch are the members of its `kernel_info`. "sizes" is what the operation
/// states, m, n, k and the number of products for `gemm` for example, or zeros. Some arguments are
/// present only if they have something to say: "tag", "steps" (the names of the steps of a
/// program, in order), "batch" (the number of launches in a batch) and "failure" (the `errc` of the
/// launch). Names and tags keep the characters of their first 31 bytes, "steps" those of 191.
///
/// A launch without timestamps has the argument `"timestamps": "missing"`, or `"off"` if the option
/// is off. Its slice begins after its enqueueing call and after the previous launch of the stream.
/// The slice ends at the detection, or at the beginning of the next launch on the stream if that is
/// earlier.
///
/// The constructor allocates the whole buffer. Hooks take no lock and allocate nothing. In a full
/// `drop_newest` buffer whose launches have completed, each hook costs one relaxed load. A dropped
/// launch also increments a counter on one of sixteen cache lines.
class SLUICE_EXPORT chrome_trace final : public kernel_trace {
 public:
  /// A trace that keeps the first `capacity` launches.
  /// @throws std::bad_alloc if the buffer cannot be allocated
  explicit chrome_trace(std::size_t capacity = 65'536)
      : chrome_trace(chrome_trace_options{.capacity = capacity}) {}
  /// A trace with `options`.
  /// @throws error `invalid_argument` if `full` is no enumerator
  /// @throws std::bad_alloc if the buffer cannot be allocated
  explicit chrome_trace(const chrome_trace_options& options);
  ~chrome_trace() override;

  void before_enqueue(const kernel_info& info) override;
  void after_enqueue(const kernel_info& info, const error* failure) override;
  void after_complete(const kernel_info& info, const kernel_outcome& outcome) override;
  [[nodiscard]] bool wants_timestamps() const noexcept override;
  void after_timestamps(const kernel_info& info, const kernel_times& times) override;

  /// Returns the launches that have completed so far, as JSON. Its `otherData.left_out` is the
  /// number that `left_out` returns.
  ///
  /// Waits up to a second for the timestamps of these launches. Timestamps that arrive later are
  /// missing from the result. Thread-safe. Must not be called from a hook.
  /// @throws std::bad_alloc if there is no memory for the text
  [[nodiscard]] std::string json() const;
  /// The number of launches that are not in the trace, because they were dropped or overwritten.
  [[nodiscard]] std::uint64_t left_out() const noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace sluice
