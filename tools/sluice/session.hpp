// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/command.hpp"

#include <sluice/actors/device.hpp>
#include <sluice/envelope/chrome_trace.hpp>

#include <caf/all.hpp>

#include <chrono>
#include <memory>
#include <string>

namespace sluice::cli {

/// The launch that completed last.
struct launch_summary {
  std::string library;                  ///< "cuBLAS"; empty without a launch
  std::string operation;                ///< "gemm"
  std::chrono::nanoseconds latency{0};  ///< from the enqueue until the engine saw the completion
};

/// Writes `trace` as JSON, or as a picture of its `trace_part` if the name ends in ".png". The file
/// appears under `path` only when it is complete. @throws error as `io::output_file`; as
/// `draw_timeline`
void write_trace(const std::filesystem::path& path, const chrome_trace& trace);

/// The environment of one command: an actor system, the device of `--device` with its actor, and
/// the trace of `--trace`. A command creates it after it has read and checked its inputs. Not
/// thread-safe.
class session {
 public:
  /// Whether the session records launches for `last_launch`, or the times of runs of programs for
  /// `take_run_time`. Measurements of requests do without both.
  enum class watch { launches, run_times, nothing };

  /// The options of a service whose only client is the user of the command: requests of any cost.
  [[nodiscard]] static device_service_options without_limits();

  /// Opens the device. @throws error `invalid_argument`, naming the option, if there is no such
  /// device; as `scoped_device`
  explicit session(const common_options& options, watch watched = watch::launches,
                   device_service_options service = without_limits());
  session(const session&) = delete;
  session& operator=(const session&) = delete;
  ~session();

  [[nodiscard]] caf::actor_system& system() noexcept;
  [[nodiscard]] scoped_device& device() noexcept;
  /// Closes the device and opens it again with other options. Everything that belongs to the device
  /// must have been dropped. @throws error as `scoped_device`
  void reopen_device(device_service_options service);
  /// "cuda:0"
  [[nodiscard]] std::string device_name() const;
  [[nodiscard]] device_info info() const;
  /// The trace of `--trace`, or null. The device's own actors use it already; pass it to actors
  /// that the command spawns itself.
  [[nodiscard]] std::shared_ptr<kernel_trace> trace() const noexcept;

  /// Sends `request` to `target` and waits for the reply. @throws error as `sluice::ask`
  template <class Reply, class Handle, class Request>
  Reply ask(const Handle& target, Request request) {
    return sluice::ask<Reply>(system(), target, std::move(request));
  }

  /// The launch that completed last. Meaningful after the reply to a `finished` request. Empty if
  /// there was no launch, or with `watch::nothing`.
  [[nodiscard]] launch_summary last_launch() const;

  /// The time that the device took for the next run of a program, in the order of the runs. Waits
  /// until it is known. Call it once for each run that was answered, with `watch::run_times`.
  /// @throws error `library_failure` if the device has no timestamps of the run
  [[nodiscard]] std::chrono::nanoseconds take_run_time();

  /// Writes the trace file if `--trace` was given. A command calls it last. @throws error as
  /// `io::output_file`
  void finish();

 private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace sluice::cli
