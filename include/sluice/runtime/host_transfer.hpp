// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/stream.hpp>

#include <cstddef>
#include <memory>

namespace sluice {

/// Moves bytes between memory of the process and memory of a device, as part of one launch.
///
///     const auto values = std::make_shared<std::vector<float>>(...);
///     const auto moved = host_transfer::upload(stream, {values, values->data()}, target.bytes());
///     auto recorder = launch_recorder::strict(stream);
///     recorder.write(target);
///     recorder.preflight();
///     moved->enqueue(target.data());
///     const auto point = recorder.commit();  // `moved` lives until this point has completed
///
/// Preparing a transfer does everything that takes time or can be refused; `enqueue` only enqueues,
/// whatever the size. All bytes have been moved when the launch's point completes, and no other
/// launch sees a part of them.
///
/// On a host device the stream's thread copies from or to the given memory itself. On a GPU the
/// bytes pass through pinned memory of the runtime, whose size is limited
/// (`runtime_options::pinned_limit`): up to `most_at_once` bytes through a piece of their own, more
/// through a few slots that all transfers of a stream share. A thread of the runtime copies between
/// the slots and the given memory while the stream is under way; other streams do not wait.
///
/// A transfer must live until its launch has completed, or the device is lost and its stream is
/// quiescent: keep it as an owner of the launch. Destroying it makes no driver call.
class host_transfer {
 public:
  /// Up to this size, in bytes, an upload copies its source when it is prepared and a download
  /// copies to its target in `finish`.
  static constexpr std::size_t most_at_once = std::size_t{64} << 10U;

  /// Prepares to copy `bytes` bytes at `source`, which are not written before the launch has
  /// completed. The transfer drops its share of the source as soon as it has read it: during this
  /// call, or on a thread of the runtime. Any thread; does not wait for the device.
  /// @throws error `over_budget` (pinned memory would exceed its limit; retryable),
  /// `out_of_memory`,
  ///   `unsupported` (more than `most_at_once` bytes on a GPU without stream memory operations),
  ///   `stream_misuse` (no stream), `shutting_down`, `device_lost`; std::bad_alloc,
  ///   std::system_error (no thread can be started)
  [[nodiscard]] static std::shared_ptr<host_transfer> upload(stream_ref stream,
                                                             std::shared_ptr<const void> source,
                                                             std::size_t bytes);
  /// Prepares to copy `bytes` bytes to `target`, which nobody else reads or writes before the
  /// launch has completed and `finish` has returned. Otherwise as `upload`.
  [[nodiscard]] static std::shared_ptr<host_transfer> download(stream_ref stream,
                                                               std::shared_ptr<void> target,
                                                               std::size_t bytes);

  host_transfer() = default;
  host_transfer(const host_transfer&) = delete;
  host_transfer& operator=(const host_transfer&) = delete;
  virtual ~host_transfer() = default;

  /// Enqueues the transfer to or from `address`, memory of the device, on its stream: once, between
  /// preflight and commit of the launch. Does not wait for the device. When it throws, part of the
  /// transfer may have been enqueued: commit the launch with that error.
  /// @throws error `stream_misuse` (called a second time, or the stream has been retired),
  ///   `library_failure`, `device_lost`
  virtual void enqueue(void* address) = 0;

  /// After the launch of a download has completed: the target holds all bytes when it returns.
  /// Copies at most `most_at_once` bytes. Does nothing for an upload.
  virtual void finish() noexcept {}

  /// An upper bound of the commands that `enqueue` puts on the stream.
  [[nodiscard]] virtual std::size_t commands() const noexcept { return 1; }
};

}  // namespace sluice
