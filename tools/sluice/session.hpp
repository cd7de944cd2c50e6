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
  std::string library;                  ///< "cuBLAS"; empty when nothing was launched
  std::string operation;                ///< "gemm"
  std::chrono::nanoseconds latency{0};  ///< from enqueueing until the completion was known
};

/// Writes `trace` as JSON; the file appears under `path` only when it is complete. @throws error as
/// `io::output_file`
void write_trace(const std::filesystem::path& path, const chrome_trace& trace);

/// What a command computes with: an actor system, the device that `--device` names with its actor,
/// and the trace that `--trace` asks for. Make it after the inputs have been read and checked; use
/// it from one thread.
class session {
 public:
  /// Whether launches are watched for `last_launch`. Measurements go without.
  enum class watch { launches, nothing };

  /// Opens the device. @throws error `invalid_argument`, naming the option, when there is no such
  /// device; as `scoped_device`
  explicit session(const common_options& options, watch watched = watch::launches);
  session(const session&) = delete;
  session& operator=(const session&) = delete;
  ~session();

  [[nodiscard]] caf::actor_system& system() noexcept;
  [[nodiscard]] scoped_device& device() noexcept;
  /// "cuda:0"
  [[nodiscard]] std::string device_name() const;
  [[nodiscard]] device_info info() const;
  /// The trace of `--trace`, or null. Attached to the device already; for actors made by hand.
  [[nodiscard]] std::shared_ptr<kernel_trace> trace() const noexcept;

  /// Sends `request` to `target` and waits for the answer. @throws error as `sluice::ask`
  template <class Reply, class Handle, class Request>
  Reply ask(const Handle& target, Request request) {
    return sluice::ask<Reply>(system(), target, std::move(request));
  }

  /// The launch that completed last; to be asked after the reply of a `finished` request. Empty
  /// without a launch, or with `watch::nothing`.
  [[nodiscard]] launch_summary last_launch() const;

  /// Writes the trace file, if one was asked for: the last thing a command does. @throws error as
  /// `io::output_file`
  void finish();

 private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace sluice::cli
