// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/device.hpp>
#include <sluice/runtime/gpu_ref.hpp>
#include <sluice/runtime/launch_recorder.hpp>
#include <sluice/runtime/memory_budget.hpp>
#include <sluice/runtime/memory_resource.hpp>
#include <sluice/runtime/stream.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace sluice {

/// Counters of a runtime, for diagnostics and for tests that nothing leaks.
///
/// Observing `imports` or `exports` drop synchronizes with the runtime's last use of that memory
/// and its stream. Observing `releases_pending` drop synchronizes with the release of the owner.
struct runtime_statistics {
  std::size_t bytes_outstanding = 0;  ///< bytes of blocks that have not been freed, without imports
  std::size_t peak_bytes = 0;         ///< the largest value of `bytes_outstanding` so far
  std::size_t blocks = 0;             ///< blocks that have not been freed, with imports
  std::size_t imports = 0;            ///< imports that have not been returned to their producer
  std::size_t exports = 0;            ///< exports that their consumer has not released
  std::size_t references = 0;         ///< counted references to blocks, including freed blocks
  std::size_t points = 0;             ///< timeline points that the use states of blocks remember
  std::size_t leases = 0;             ///< leases held now
  std::size_t streams = 0;            ///< streams that have not been destroyed
  std::size_t events = 0;  ///< events of timelines; those of a destroyed stream count until all of
                           ///< its work is known to have completed
  /// Owners that have not been destroyed: continuations of completed launches, and libraries of
  /// ended lanes.
  std::size_t releases_pending = 0;
  std::uint64_t launches = 0;             ///< tickets taken on all streams
  std::uint64_t waits = 0;                ///< waits queued on all streams for other streams
  std::uint64_t recorders_abandoned = 0;  ///< recorders destroyed before commit
  /// Bytes of blocks that were freed after the loss of the device. They stay with the device and
  /// are no longer outstanding.
  std::size_t bytes_lost = 0;
  /// How often a preflight waited for another launch between preflight and commit. A launch that
  /// waits again counts again.
  std::uint64_t lease_waits = 0;
  std::chrono::nanoseconds lease_wait_total{0};    ///< total duration of the finished waits
  std::chrono::nanoseconds lease_wait_longest{0};  ///< duration of the longest finished wait
  /// Pinned memory that transfers have allocated and that has not been freed: in use, kept for
  /// later, or waiting for the reclaim thread. In bytes.
  std::size_t pinned_bytes = 0;
  /// Likewise, of the buffers of clients; see `device_runtime::allocate_pinned`.
  std::size_t client_pinned_bytes = 0;
};

/// Whether the environment variable SLUICE_EXPLICIT_WAITS is 1.
[[nodiscard]] SLUICE_EXPORT bool explicit_waits_by_default() noexcept;

/// Options of a `device_runtime`.
struct runtime_options {
  /// The memory resource. Null: `make_default_resource()`.
  std::unique_ptr<memory_resource> resource{};
  /// The longest wait for launches in flight when the runtime is destroyed. After it, the device is
  /// declared lost.
  ///
  /// The same limit applies to three later waits: for libraries of ended lanes, for launches
  /// between preflight and commit with their work, and for other threads that are destroying
  /// owners.
  std::chrono::milliseconds drain_timeout{10'000};
  /// The limit of pinned memory for transfers between the process and a GPU, in bytes. Memory that
  /// is kept for later transfers counts too.
  ///
  /// 0 stands for 256 MiB or 1/32 of the device's memory, whichever is more. The memory is
  /// allocated on demand. A transfer larger than `host_transfer::max_at_once` needs about 1/64 of
  /// its size, and at least 1 MiB. More makes it faster.
  std::size_t pinned_limit = 0;
  /// The limit of pinned memory that clients own, in bytes; see `device_runtime::allocate_pinned`.
  /// 0 stands for 256 MiB or 1/32 of the memory of the device, whichever is more.
  std::size_t client_pinned_limit = 0;
  /// Queue a wait also for a point that is known to have completed. This costs driver calls and
  /// changes no result. compute-sanitizer needs it, because it learns an order only from waits.
  bool explicit_waits = explicit_waits_by_default();
};

/// Carries the state of one use from `device_runtime::prepare_use` to `finish_use`.
///
/// A small value. It holds no block and no lease.
class use_ticket {
 public:
  use_ticket() noexcept = default;

 private:
  friend class device_runtime;

  block_id block_;
  access_kind access_ = access_kind::read;
  std::uint64_t version_ = 0;  // the block's number of publications
  timeline_point dependency_;  // the block's last write, if it may still fail
  timeline_point first_;       // the first point that may be the use's own
};

/// Ties one device, its streams and its memory resource together.
///
///     device_runtime runtime{open_device("auto")};
///     const auto stream = runtime.create_stream();
///     const auto x = runtime.allocate<float>(1000, stream, "x");
///
/// All functions are thread-safe.
///
/// The destructor refuses new work, waits up to `runtime_options::drain_timeout` for launches in
/// flight, frees every block and retires the streams. References, recorders and streams may outlive
/// the runtime. Using them then throws `shutting_down` or `stale_ref`. Destroying them is always
/// allowed.
///
/// Exported memory stays allocated until its consumer releases it. Within the time limits, adopted
/// imports return to their producers, and owners are destroyed, before the destructor returns. The
/// destroying thread must not hold a lock that a deleter or a destructor of them needs.
/// docs/concepts/failure_and_loss.md lists the steps.
class SLUICE_EXPORT device_runtime {
 public:
  /// Makes a runtime for `device`.
  /// @throws error `invalid_argument` if `device` is null
  /// @throws error `device_lost` if the device is lost
  /// @throws error `library_failure` if a driver call failed
  /// @throws error the errors of `memory_resource::bind`
  explicit device_runtime(std::shared_ptr<sluice::device> device, runtime_options options = {});
  device_runtime(const device_runtime&) = delete;
  device_runtime& operator=(const device_runtime&) = delete;
  ~device_runtime();

  /// The shared runtime of the device called `name`, in the form that `open_device` reads.
  ///
  ///     auto& runtime = device_runtime::get("cuda:0");
  ///
  /// The first call makes the runtime. Other threads wait meanwhile. If construction fails, the
  /// next call tries again.
  ///
  /// A function-local static destroys the shared runtimes, the newest first. The first call of
  /// `get` or `configure` in the process constructs that static. The usual order of static objects
  /// follows: younger ones are destroyed before the runtimes, older ones after them. From then on
  /// `get` and `configure` throw `shutting_down` for every device, and references that `get`
  /// returned must not be used.
  ///
  /// In a child of `fork()`, `get` and `configure` throw `device_lost` if the parent called `get`.
  /// The child makes runtimes of its own, for devices that it opens.
  /// @throws error the errors of `open_device` and of the constructor
  /// @throws error `shutting_down` if the process has destroyed the shared runtimes
  /// @throws error `device_lost` in a child of `fork()` whose parent called `get`
  [[nodiscard]] static device_runtime& get(std::string_view name = "auto");
  /// Sets the options of the shared runtime of `device`.
  ///
  /// The first `get` calls `make_options`. After a failed construction the next `get` calls it
  /// again. Other callers of `get` wait meanwhile. `make_options` must not call `get` or
  /// `configure` for the same device.
  /// @throws error `stream_misuse` if the runtime exists already
  /// @throws error `shutting_down` if the process has destroyed the shared runtimes
  /// @throws error `device_lost` in a child of `fork()` whose parent called `get`
  static void configure(device_id device, std::function<runtime_options()> make_options);

  /// The device. The reference is valid as long as the runtime.
  [[nodiscard]] sluice::device& device() const noexcept;
  /// The device, for an object that may outlive the runtime.
  [[nodiscard]] std::shared_ptr<sluice::device> shared_device() const noexcept;

  /// Creates a stream.
  /// @throws error `invalid_argument` if `priority` is no enumerator
  /// @throws error `shutting_down` if the runtime is shutting down
  /// @throws error `device_lost` if the device is lost
  /// @throws error `library_failure` if a driver call failed
  /// @throws error `unsupported` after 262,143 streams of one runtime, because no stream id is
  ///   reused
  [[nodiscard]] sluice::stream create_stream(stream_priority priority = stream_priority::normal);
  /// Adopts a stream of another library on this device.
  ///
  ///     const auto adopted = runtime.adopt_stream(reinterpret_cast<native_stream*>(cuda_stream));
  ///
  /// Launches on the adopted stream are ordered, published and completed like those on other
  /// streams. Work that was queued before the adoption precedes them in stream order.
  ///
  /// `native` must outlive the returned object, which never destroys it. While a launch is being
  /// made or a thread synchronizes with the stream, no other code may destroy the stream or begin
  /// to capture it. A launch on a captured stream throws `stream_misuse`.
  ///
  /// If a native stream is adopted twice, the runtime treats it as two streams. The order is
  /// correct, but waits are queued. On a host device a failed launch may then be noted for the
  /// other of the two.
  /// @throws error `invalid_argument` if `native` is a default stream of CUDA
  /// @throws error `invalid_argument` if `native` is being captured
  /// @throws error `invalid_argument` if `native` belongs to another device
  /// @throws error the errors of `create_stream`
  [[nodiscard]] sluice::stream adopt_stream(native_stream* native);

  /// Allocates `bytes` bytes of device memory, ready in the order of `stream`.
  ///
  /// Launches on other streams may use the memory through a recorder. The contents are undefined. 0
  /// bytes give a block without memory. The call does not synchronize. `tag` names the memory in
  /// errors, logs and statistics.
  ///
  /// If the memory does not suffice, the runtime makes room and tries again; see
  /// docs/concepts/memory.md. The calling thread then destroys owners of completed launches. It
  /// must not hold a lock that a destructor of them needs.
  /// @throws error `out_of_memory` if the device has no memory
  /// @throws error `over_budget` if a budget would be exceeded
  /// @throws error `stream_misuse` if `stream` is empty, destroyed or of another runtime
  /// @throws error `library_failure` if an event cannot be created
  /// @throws error `shutting_down` if the runtime is shutting down
  /// @throws error `device_lost` if the device is lost
  /// @throws std::bad_alloc if the host has no memory
  [[nodiscard]] block_ref allocate_bytes(std::size_t bytes, stream_ref stream,
                                         allocation_tag tag = {});
  /// Allocates `count` elements. Otherwise like `allocate_bytes`.
  /// @throws error `invalid_argument` if the number of bytes overflows
  /// @throws error the errors of `allocate_bytes`
  template <element T>
  [[nodiscard]] gpu_ref<T> allocate(std::size_t count, stream_ref stream, allocation_tag tag = {}) {
    require_countable<T>(count);
    return gpu_ref<T>(allocate_bytes(count * sizeof(T), stream, tag), 0, count);
  }
  /// Allocates from `reservation`, a reservation of `reserve_memory`.
  ///
  /// The budget of the reservation cannot refuse the allocation.
  /// @throws error `invalid_argument` if less than the rounded size is left in `reservation`
  /// @throws error `invalid_argument` if the runtime has a budget and `reservation` is not of it
  /// @throws error the errors of the functions without a reservation
  ///@{
  [[nodiscard]] block_ref allocate_bytes(std::size_t bytes, stream_ref stream, allocation_tag tag,
                                         memory_reservation& reservation);
  template <element T>
  [[nodiscard]] gpu_ref<T> allocate(std::size_t count, stream_ref stream, allocation_tag tag,
                                    memory_reservation& reservation) {
    require_countable<T>(count);
    return gpu_ref<T>(allocate_bytes(count * sizeof(T), stream, tag, reservation), 0, count);
  }
  ///@}
  /// Reserves budget for blocks of these `sizes`, in bytes: for all of them or for none.
  ///
  ///     auto reserved = runtime.reserve_memory(std::array{bytes_of_weights, bytes_of_bias});
  ///     const auto weights = runtime.allocate<float>(count, stream, "weights", reserved);
  ///
  /// The destructor of the reservation returns the unused part. The function takes no memory from
  /// the device, so the device itself may still run out of memory.
  /// @throws error `over_budget` if the budget would be exceeded
  /// @throws error `invalid_argument` if the sum of the sizes overflows
  /// @throws error `shutting_down` if the runtime is shutting down
  /// @throws error `device_lost` if the device is lost
  [[nodiscard]] memory_reservation reserve_memory(std::span<const std::size_t> sizes);
  /// Frees `block` in stream order after its recorded uses. Remaining references become stale.
  /// @throws error `stale_ref` if the block has been freed already
  /// @throws error `invalid_argument` if `block` is empty or of another runtime
  /// @throws error `device_lost` in a child of `fork()`, for a runtime of the parent
  void deallocate(const block_ref& block);

  /// Drains the release list like `reap_pending`, then returns the bytes of blocks that have not
  /// been freed.
  /// @throws error `device_lost` in a child of `fork()`, for a runtime of the parent
  [[nodiscard]] std::size_t bytes_outstanding();
  /// Destroys the owners of completed launches on the calling thread. Then waits for other threads
  /// that are draining the release list.
  ///
  /// An allocation that is short of memory does the same. The caller of either must not hold a lock
  /// that a destructor of an owner needs.
  /// @throws error `device_lost` in a child of `fork()`, for a runtime of the parent
  void reap_pending();
  /// Allocates host memory that a GPU reads and writes at full speed: it is pinned.
  ///
  /// A transfer from or to this memory passes through no other memory: the device copies the bytes,
  /// and no thread does. It returns with its last owner, on any thread. Up to 64 MiB
  /// are kept for later calls. Allocating it anew may take milliseconds. Any thread may call the
  /// function.
  /// @throws error `over_budget` if `runtime_options::client_pinned_limit` would be exceeded;
  ///   retryable
  /// @throws error `out_of_memory` if there is no memory
  /// @throws error `shutting_down` if the runtime is shutting down
  /// @throws error `device_lost` if the device is lost
  /// @throws std::bad_alloc if the host has no memory
  [[nodiscard]] std::shared_ptr<void> allocate_pinned(std::size_t bytes);
  /// Pins the first `bytes` bytes of memory that was allocated elsewhere, such as a mapped file, so
  /// that transfers of it run as those of `allocate_pinned` do.
  ///
  ///     const auto pinned = runtime.register_host(mapping, bytes);
  ///     const auto image = host_tensor::external(pinned, element_type::u8, {720, 1280, 3});
  ///
  /// The result is the memory with `memory` as its owner. With its last copy the registration ends,
  /// on a thread of the runtime, and `memory` is released after that. Transfers of parts that other
  /// owners keep alive run at full speed too, as long as there is a copy. The bytes do not count
  /// towards `runtime_options::client_pinned_limit`. Registering takes about 0.1 ms for each MiB.
  /// Any thread may call the function.
  /// @throws error `invalid_argument` if there is no memory, or some of it is registered already
  /// @throws error `out_of_memory` if the memory cannot be pinned
  /// @throws error `library_failure` if the driver refuses the memory
  /// @throws error `shutting_down` if the runtime is shutting down
  /// @throws error `device_lost` if the device is lost
  /// @throws std::bad_alloc if the host has no memory
  [[nodiscard]] std::shared_ptr<void> register_host(std::shared_ptr<void> memory,
                                                    std::size_t bytes);
  /// Returns memory that the resource keeps, after its last uses, and pinned memory that is kept
  /// for transfers and clients.
  ///
  /// Returns the number of bytes without the pinned ones. The call drains the release list like
  /// `reap_pending`. It may wait for up to a second for frees whose uses have completed.
  /// @throws error `shutting_down` if the runtime is shutting down
  /// @throws error `device_lost` if the device is lost
  std::size_t trim_memory();
  /// Whether recorders may use blocks of the resource.
  [[nodiscard]] bool supports_use_tracking() const noexcept;
  /// The current counters. Visits every block, so the call is meant for diagnostics.
  /// @throws error `device_lost` in a child of `fork()`, for a runtime of the parent
  [[nodiscard]] runtime_statistics statistics();

  /// Queues the waits that a use of `block` on `stream` needs. For scratch memory and foreign code;
  /// launches use a recorder.
  ///
  ///     const auto prepared = runtime.prepare_use(block, stream, access_kind::write);
  ///     // ... enqueue on the stream ...
  ///     runtime.finish_use(block, stream, access_kind::write, prepared);
  ///
  /// The function takes no lease. If another use is published before `finish_use`, that function
  /// throws. `write` means that the use replaces every byte of the block. A use that reads fails if
  /// the launch that wrote the memory fails later.
  /// @throws error `upstream_failed` if the use reads and the launch that wrote the memory has
  ///   failed
  /// @throws error the other errors of `launch_recorder::preflight`
  [[nodiscard]] use_ticket prepare_use(const block_ref& block, stream_ref stream,
                                       access_kind access);
  /// Publishes the use that was enqueued since `prepare_use`. Returns its point.
  ///
  /// `block`, `stream` and `access` must be those of `prepare_use`. The publication adds to the use
  /// state of the block and clears nothing. A failure of the point is a failure of the use.
  ///
  /// The use may also count as failed if more than 3000 launches have failed since `prepare_use`,
  /// on its stream or on the stream of the block's last write.
  /// @throws error `stream_misuse`, after publishing, if the use was prepared for another stream,
  ///   block or access
  /// @throws error `stream_misuse`, after publishing, if another use was published since
  ///   `prepare_use`
  /// @throws error `stale_ref` if the block has been freed
  /// @throws error the other errors of `record_use`
  timeline_point finish_use(const block_ref& block, stream_ref stream, access_kind access,
                            use_ticket ticket);
  /// Publishes a use that was enqueued without `prepare_use`. Returns its point.
  ///
  /// The publication adds to the use state of the block and clears nothing. The runtime does not
  /// know what the use depended on, so the use does not fail with it. A failure of the use may be
  /// noted for a ticket that another thread took after the use was enqueued.
  ///
  /// If the function throws, it has published nothing.
  /// @throws error `stream_misuse` if the block or the stream is of another runtime
  /// @throws error `stream_misuse` if the memory cannot be tracked, or is read-only and `access`
  ///   writes
  /// @throws error `stale_ref` if the block has been freed
  /// @throws error `library_failure` if a driver call failed
  /// @throws error `device_lost` if the device is lost
  /// @throws std::bad_alloc if the host has no memory
  timeline_point record_use(const block_ref& block, stream_ref stream, access_kind access);
  /// `prepare_use` and `finish_use` for a typed reference, as the first use of new scratch memory.
  ///@{
  template <element T>
  [[nodiscard]] use_ticket prepare_first_use(const gpu_ref<T>& ref, stream_ref stream,
                                             access_kind access) {
    return prepare_use(ref.block(), stream, access);
  }
  template <element T>
  timeline_point finish_first_use(const gpu_ref<T>& ref, stream_ref stream, access_kind access,
                                  use_ticket ticket) {
    return finish_use(ref.block(), stream, access, ticket);
  }
  ///@}

  /// Refuses new work with `shutting_down` and waits up to `timeout` for launches in flight.
  ///
  /// If they have not finished by then, the device is declared lost. Returns whether everything
  /// finished; the effects of that work are then visible to the calling thread.
  ///
  /// In flight are all committed launches, and all work on streams whose owners have been
  /// destroyed. Work that was queued without a recorder on a living stream is not waited for. The
  /// destructor calls this function.
  bool shut_down(std::chrono::milliseconds timeout) noexcept;
  /// `shut_down` with `runtime_options::drain_timeout`.
  bool shut_down() noexcept { return shut_down(drain_timeout_); }

 private:
  friend class detail::runtime_core;
  template <element T>
  static void require_countable(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / 2 / sizeof(T)) {
      throw error(errc::invalid_argument, "allocate: the size in bytes overflows");
    }
  }

  std::shared_ptr<detail::runtime_core> core_;
  std::chrono::milliseconds drain_timeout_;
};

}  // namespace sluice
