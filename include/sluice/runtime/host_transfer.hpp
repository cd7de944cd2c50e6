// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/stream.hpp>

#include <cstddef>
#include <memory>

namespace sluice {

/// Moves bytes between host memory and memory of a device, as part of one launch.
///
///     const auto values = std::make_shared<std::vector<float>>(...);
///     const auto moved = host_transfer::upload(stream, {values, values->data()}, target.bytes());
///     auto recorder = launch_recorder::strict(stream);
///     recorder.write(target);
///     recorder.preflight();
///     moved->enqueue(target.data());
///     const auto point = recorder.commit();  // `moved` lives until this point has completed
///
/// The construction does all slow work and all checks that can fail early. `enqueue` only enqueues,
/// whatever the size. All bytes have been moved when the point of the launch completes. No other
/// launch observes a part of them.
///
/// On a host device the stream's thread copies the bytes directly. On a GPU they pass through
/// pinned memory of the runtime, which `runtime_options::pinned_limit` limits. Up to `max_at_once`
/// bytes pass through a piece of their own. More bytes pass through a few slots that all transfers
/// of the stream share. The staging thread of the runtime copies between the slots and host
/// memory. Other streams do not wait. Memory of `device_runtime::allocate_pinned` needs
/// none of this: the device copies from it or to it.
///
/// A transfer must live until its launch has completed. If the device is lost, it must live until
/// the stream is quiescent. Keep it as an owner of the launch. The destructor makes no driver call.
///
/// docs/concepts/memory.md explains the slots.
class SLUICE_EXPORT host_transfer {
 public:
  /// The largest size, in bytes, of a transfer through a piece of pinned memory of its own.
  ///
  /// Such an upload copies its source when it is constructed. Such a download copies to its target
  /// in `finish`. If pinned memory has no piece left, a transfer of this size uses the slots
  /// instead.
  static constexpr std::size_t max_at_once = std::size_t{64} << 10U;

  /// Prepares a copy of `bytes` bytes from `source` to the device.
  ///
  /// The source must not be written before the launch has completed. On a GPU the transfer drops
  /// its share of the source as soon as it has read the bytes: during this call, or on a thread of
  /// the runtime. On a host device, and for memory of `device_runtime::allocate_pinned`, it keeps
  /// the share. Any thread may call the function. It does not wait for the device.
  /// @throws error `over_budget` if pinned memory would exceed its limit; retryable
  /// @throws error `out_of_memory` if no pinned memory can be allocated
  /// @throws error `unsupported` if the GPU has no stream memory operations and the transfer needs
  ///   the slots
  /// @throws error `stream_misuse` if `stream` is empty
  /// @throws error `invalid_argument` if `source` is null
  /// @throws error `shutting_down` if the runtime is shutting down
  /// @throws error `device_lost` if the device is lost
  /// @throws std::bad_alloc if the host has no memory
  /// @throws std::system_error if no thread can be started
  [[nodiscard]] static std::shared_ptr<host_transfer> upload(stream_ref stream,
                                                             std::shared_ptr<const void> source,
                                                             std::size_t bytes);
  /// Prepares a copy of `bytes` bytes from the device to `target`.
  ///
  /// No other code may read or write the target before the launch has completed and `finish` has
  /// returned. Otherwise like `upload`.
  /// @throws error the errors of `upload`
  /// @throws std::bad_alloc if the host has no memory
  /// @throws std::system_error if no thread can be started
  [[nodiscard]] static std::shared_ptr<host_transfer> download(stream_ref stream,
                                                               std::shared_ptr<void> target,
                                                               std::size_t bytes);

  host_transfer() = default;
  host_transfer(const host_transfer&) = delete;
  host_transfer& operator=(const host_transfer&) = delete;
  virtual ~host_transfer() = default;

  /// Enqueues the transfer to or from `address`, memory of the device, on its stream.
  ///
  /// Call it once, between preflight and commit of the launch. It does not wait for the device. If
  /// it throws, part of the transfer may have been enqueued: commit the launch with that error.
  /// @throws error `stream_misuse` if it was called before
  /// @throws error `stream_misuse` if the stream has been destroyed
  /// @throws error `library_failure` if a driver call failed
  /// @throws error `device_lost` if the device is lost
  virtual void enqueue(void* address) = 0;

  /// Completes a download after its launch has completed. The target then holds all bytes.
  ///
  /// Copies at most `max_at_once` bytes. Does nothing for an upload.
  virtual void finish() noexcept {}

  /// An upper bound of the number of commands that `enqueue` puts on the stream.
  [[nodiscard]] virtual std::size_t commands() const noexcept { return 1; }
  /// The largest `commands()` of a transfer of `bytes` bytes, on any device.
  [[nodiscard]] static constexpr std::size_t max_commands(std::size_t bytes) noexcept {
    return bytes <= max_at_once ? 1 : 193;
  }
};

}  // namespace sluice
