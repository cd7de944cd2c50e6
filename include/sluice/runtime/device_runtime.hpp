// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// What a runtime has in its hands, for diagnostics and for tests that nothing leaks: events,
/// leases, owners (`releases_pending`), handles (`references`) and points that are alive, among
/// others. Who sees that an import, an export or an owner is no longer counted comes after all that
/// the runtime did with it and with its stream.
struct runtime_statistics {
  std::size_t bytes_outstanding = 0;  ///< bytes of blocks that have not been freed, without imports
  std::size_t peak_bytes = 0;         ///< the largest value of that so far
  std::size_t blocks = 0;             ///< blocks that have not been freed, with tracked imports
  std::size_t imports = 0;            ///< imports that their producer has not got back yet
  std::size_t exports = 0;            ///< exports that their consumer has not let go yet
  std::size_t references = 0;         ///< counted references to blocks, freed ones included
  std::size_t points = 0;             ///< timeline points that blocks remember
  std::size_t leases = 0;             ///< leases held at this moment
  std::size_t streams = 0;            ///< streams that have not been retired
  std::size_t events = 0;  ///< events of timelines that are alive; a retired stream's go when all
                           ///< of its work is known to have completed
  /// Owners: completed launches whose references to what they touched have not been dropped yet,
  /// and what ended lanes kept that has not gone yet.
  std::size_t releases_pending = 0;
  std::uint64_t launches = 0;             ///< tickets taken on all streams
  std::uint64_t waits = 0;                ///< waits queued for other streams, on all streams
  std::uint64_t recorders_abandoned = 0;  ///< recorders destroyed before commit
  /// Bytes of blocks that were freed after the device's loss and stay with it: not outstanding any
  /// more, and not given back.
  std::size_t bytes_lost = 0;
  /// How often a preflight has begun to wait for another launch between its preflight and commit;
  /// one launch counts each time that it has to wait again. And for how long the waits that are
  /// over took: together, and the longest.
  std::uint64_t lease_waits = 0;
  std::chrono::nanoseconds lease_wait_total{0};    ///< sum of these waits
  std::chrono::nanoseconds lease_wait_longest{0};  ///< longest of these waits
  /// Pinned memory that transfers have allocated and that has not been freed yet: in use, kept for
  /// later, or waiting for the reclaim thread.
  std::size_t pinned_bytes = 0;
};

/// Whether the environment variable SLUICE_EXPLICIT_WAITS is set to 1.
[[nodiscard]] bool explicit_waits_by_default() noexcept;

/// How a `device_runtime` is made.
struct runtime_options {
  /// The memory resource; none means `make_default_resource()`.
  std::unique_ptr<memory_resource> resource{};
  /// How long shutting down waits for work in flight before the device is declared lost; how long
  /// destroying the runtime waits after that for launches that were between preflight and commit,
  /// work included; and how long for other threads that are destroying what its launches had kept.
  std::chrono::milliseconds drain_timeout{10'000};
  /// Bytes of pinned memory that transfers between the process and a GPU hold at most, those kept
  /// for later transfers included. 0: 256 MiB or 1/32 of the device's memory, whichever is more. It
  /// is allocated on demand. A transfer needs about 1/64 of its size, and at least 1 MiB if it is
  /// larger than `host_transfer::most_at_once`; more makes it faster.
  std::size_t pinned_limit = 0;
  /// Queue a wait also for a point that is known to have completed. Costs driver calls and changes
  /// no result: for compute-sanitizer, which learns an order from events that are waited for, not
  /// from events that were asked.
  bool explicit_waits = explicit_waits_by_default();
};

/// A use of one block outside a recorder, between `prepare_use` and `finish_use`: what the one
/// tells the other. A few words, and holds nothing.
class use_ticket {
 public:
  use_ticket() noexcept = default;

 private:
  friend class device_runtime;

  block_id block_;
  access_kind access_ = access_kind::read;
  std::uint64_t version_ = 0;  // the block's publication count
  timeline_point depends_on_;  // what it reads was written by, while that may still fail
  timeline_point first_;       // the first that may be the use's own
};

/// Ties one device, its streams and its memory resource together. Thread-safe.
///
/// Destroying it refuses new work, waits for what is in flight (`drain_timeout`), frees every
/// block, live references becoming stale, and retires the streams. References, recorders and
/// streams may outlive it: using them is answered with `shutting_down` or `stale_ref`, dropping
/// them is harmless. Memory that has been exported stays until its consumer has let go of it;
/// tracked imports have gone back to their producers and what launches kept has been destroyed, so
/// the thread that destroys the runtime must not hold a lock that their deleters and destructors
/// need.
class device_runtime {
 public:
  /// An owned runtime around `device`. @throws error `device_lost`, `library_failure`
  explicit device_runtime(std::shared_ptr<sluice::device> device, runtime_options options = {});
  device_runtime(const device_runtime&) = delete;
  device_runtime& operator=(const device_runtime&) = delete;
  ~device_runtime();

  /// The process's shared runtime of the device called `name`, as `open_device` reads it, made at
  /// the first call and destroyed at exit. At most one thread builds it, the others wait; a build
  /// that failed is tried again by the next call.
  ///
  /// At exit the shared runtimes are destroyed, the one that was made last first, as one static
  /// object that was made by the process's first call of `get` or `configure`: after static objects
  /// that are younger than this, before those that are older. From then on, in the destructor of an
  /// older one or on a thread that still runs, `get` and `configure` refuse with `shutting_down`,
  /// also for a device whose runtime is not gone yet or was never made; references that `get` has
  /// returned must not be used any more.
  ///
  /// In a child of `fork()` both refuse with `device_lost` if the parent called `get` before the
  /// fork: the child makes runtimes of its own, around devices that it opens.
  /// @throws error as `open_device` and the constructor; `shutting_down`; `device_lost` (in a
  /// child)
  [[nodiscard]] static device_runtime& get(std::string_view name = "auto");
  /// Sets how the shared runtime of `device` is made. `make_options` is called at the first `get`,
  /// and again after a build that failed. The other callers of `get` wait for it meanwhile, so it
  /// must not itself call `get` or `configure` for the same device.
  /// @throws error `stream_misuse` when that runtime exists already; `shutting_down`; `device_lost`
  /// (in a child)
  static void configure(device_id device, std::function<runtime_options()> make_options);

  /// The device. Valid as long as the runtime.
  [[nodiscard]] sluice::device& device() const noexcept;
  /// The device for those who may outlive the runtime.
  [[nodiscard]] std::shared_ptr<sluice::device> shared_device() const noexcept;

  /// A new stream. @throws error `shutting_down`, `device_lost`, `library_failure`, `unsupported`
  /// (after 262,143 streams of one runtime: no id is used again)
  [[nodiscard]] sluice::stream create_stream(stream_priority priority = stream_priority::normal);
  /// A stream that somebody else made on this device (on CUDA `reinterpret_cast` a `cudaStream_t`)
  /// as one of the runtime's: launches on it are recorded, fenced and completed like others. What
  /// was queued on it before comes first in its order. It must stay alive until the returned owner
  /// is gone, which does not destroy it; and nobody else may be destroying it or begin to capture
  /// it while a launch is being made (a capture refuses launches with `stream_misuse`) or somebody
  /// synchronises it. Adopted twice it is two streams to the runtime: the order is right and costs
  /// waits, but on a host device a failed launch may be noted for the other of the two.
  /// @throws error `invalid_argument` (a default stream of CUDA's, a captured one, one of another
  ///   device); and as `create_stream`
  [[nodiscard]] sluice::stream adopt_stream(native_stream* native);

  /// `bytes` of memory, ready in the order of `stream` and, through a recorder, anywhere. The
  /// contents are undefined. 0 bytes give a block without memory. Does not synchronise.
  /// @throws error `out_of_memory`, `over_budget`, `stream_misuse` (a stream of another runtime, a
  ///   retired one), `library_failure` (an event cannot be made), `shutting_down`, `device_lost`;
  ///   std::bad_alloc
  [[nodiscard]] block_ref allocate_bytes(std::size_t bytes, stream_ref stream,
                                         allocation_tag tag = {});
  /// `count` elements; otherwise as `allocate_bytes`. @throws error also `invalid_argument` when
  /// the size overflows
  template <element T>
  [[nodiscard]] gpu_ref<T> allocate(std::size_t count, stream_ref stream, allocation_tag tag = {}) {
    require_countable<T>(count);
    return gpu_ref<T>(allocate_bytes(count * sizeof(T), stream, tag), 0, count);
  }
  /// The same from `from`, which was reserved for it: does not fail for want of budget. @throws
  /// error also `invalid_argument` when less is left in `from`
  ///@{
  [[nodiscard]] block_ref allocate_bytes(std::size_t bytes, stream_ref stream, allocation_tag tag,
                                         memory_reservation& from);
  template <element T>
  [[nodiscard]] gpu_ref<T> allocate(std::size_t count, stream_ref stream, allocation_tag tag,
                                    memory_reservation& from) {
    require_countable<T>(count);
    return gpu_ref<T>(allocate_bytes(count * sizeof(T), stream, tag, from), 0, count);
  }
  ///@}
  /// Sets budget aside for blocks of these `sizes`, in bytes: for all of them or for none. What is
  /// not used goes back when the reservation goes. Takes no memory from the device yet, which may
  /// still be out of it.
  /// @throws error `over_budget`; `invalid_argument` when the sum overflows; `shutting_down`,
  /// `device_lost`
  [[nodiscard]] memory_reservation reserve_memory(std::span<const std::size_t> sizes);
  /// Frees `block` now, in stream order after its recorded uses, although references may exist:
  /// they become stale.
  /// @throws error `stale_ref` when it has been freed already; `invalid_argument` for a block of
  /// another runtime
  void deallocate(const block_ref& block);

  /// Bytes of blocks that have not been freed, after `reap_pending`.
  [[nodiscard]] std::size_t bytes_outstanding();
  /// Drops the owners of completed launches now, in this thread, and waits for other threads that
  /// are dropping some. So does whatever is short of memory. Not to be called, nor memory to be
  /// allocated, under a lock that the destructor of something waits for that a launch keeps.
  void reap_pending();
  /// Gives memory that the resource keeps for later back to where it came from, behind its last
  /// uses, and pinned memory that is kept for transfers. Returns how many bytes, without the pinned
  /// ones. May wait, for a second at most, for frees whose uses have
  /// completed. @throws error `shutting_down`, `device_lost`
  std::size_t trim_memory();
  /// Whether blocks of the resource may be recorded.
  [[nodiscard]] bool supports_use_tracking() const noexcept;
  /// Looks at every block: for diagnostics, not for every launch.
  [[nodiscard]] runtime_statistics statistics();

  /// Queues the waits that a use of `block` on `stream` needs. No lease is held: if another use is
  /// published before `finish_use`, that one reports it. For scratch memory and foreign code;
  /// launches use a recorder. A use that reads is refused when the launch that wrote the memory has
  /// failed, and fails with it when it fails later; `write` is one of the whole block.
  /// @throws error as `launch_recorder::preflight`
  [[nodiscard]] use_ticket prepare_use(const block_ref& block, stream_ref stream,
                                       access_kind access);
  /// Publishes the use made since `prepare_use` of the same block, on the same stream and with the
  /// same access, adding to the block's state and clearing nothing. Returns its point, whose
  /// failure is the use's. The use counts as failed, too, if more than 3000 launches on its stream,
  /// or on the stream of the launch that wrote the block, have failed since `prepare_use`.
  /// @throws error `stream_misuse`, after publishing what it was called with, when the use was
  ///   prepared for another stream, block or access, or another use was published in between;
  ///   `stale_ref` when the block has been freed meanwhile; otherwise as `record_use`
  timeline_point finish_use(const block_ref& block, stream_ref stream, access_kind access,
                            use_ticket prepared);
  /// Publishes a use that has been enqueued without `prepare_use`. Adds only. Nothing is known of
  /// what it depended on, so that it does not fail with that; and a failure of its own may have
  /// been noted for a ticket that somebody else has taken since it was enqueued.
  /// @throws error `stream_misuse` (a block or a stream of another runtime, memory that cannot be
  ///   tracked or is not to be written), `stale_ref` (it has been freed), `library_failure`,
  ///   `device_lost`; std::bad_alloc. Nothing is published then
  timeline_point record_use(const block_ref& block, stream_ref stream, access_kind access);
  /// The same for typed references, as the first use of fresh scratch memory.
  ///@{
  template <element T>
  [[nodiscard]] use_ticket prepare_first_use(const gpu_ref<T>& ref, stream_ref stream,
                                             access_kind access) {
    return prepare_use(ref.block(), stream, access);
  }
  template <element T>
  timeline_point finish_first_use(const gpu_ref<T>& ref, stream_ref stream, access_kind access,
                                  use_ticket prepared) {
    return finish_use(ref.block(), stream, access, prepared);
  }
  ///@}

  /// Refuses new work from now on with `shutting_down`, waits up to `timeout` for what is in
  /// flight, then declares the device lost if it has not finished. Returns whether everything
  /// finished; what follows comes after it then. In flight are launches that have been committed,
  /// and all that is queued on streams whose owners have gone; not what was queued on a stream
  /// without a recorder. The destructor calls it.
  bool shut_down(std::chrono::milliseconds timeout) noexcept;
  /// The same for `runtime_options::drain_timeout`.
  bool shut_down() noexcept { return shut_down(drain_timeout_); }

 private:
  friend class detail::runtime_core;
  template <element T>
  static void require_countable(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / 2 / sizeof(T)) {
      throw error(errc::invalid_argument, "allocate: the number of bytes overflows");
    }
  }

  std::shared_ptr<detail::runtime_core> core_;
  std::chrono::milliseconds drain_timeout_;
};

}  // namespace sluice
