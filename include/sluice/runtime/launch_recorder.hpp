// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/column.hpp>
#include <sluice/runtime/gpu_ref.hpp>
#include <sluice/runtime/stream.hpp>
#include <sluice/runtime/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace sluice {

/// The access of one launch to a block.
enum class access_kind : std::uint8_t { read = 1, write = 2, read_write = 3 };

/// The treatment of memory without runtime identity.
enum class recorder_mode : std::uint8_t {
  strict,      ///< rejects it, because the runtime cannot order the launch
  permissive,  ///< skips it; the caller orders it by other means
};

namespace detail {
class recorder_state;
/// Keeps the state for the thread's next recorder.
struct recorder_state_deleter {
  void operator()(recorder_state* state) const noexcept;
};
class launch_dependencies;
class joint_launches;
}  // namespace detail

/// Registers the blocks that one launch reads and writes, and orders the launch.
///
///     launch_recorder recorder = launch_recorder::strict(stream);
///     recorder.read(a).read(b).write(c);
///     recorder.preflight();                // takes the leases, queues the waits
///     ... enqueue on the stream ...
///     recorder.commit();                   // publishes the launch, returns the leases
///
/// `preflight` makes the launch stream wait for every earlier use that conflicts. `commit`
/// publishes the launch to later ones.
///
/// *Registration.* A recorder notes the identity of each block and holds no reference. Preflight
/// checks the identities. Repeated registrations of one block merge, and a read and a write become
/// a read-write. A new block at the address of a freed one is another block.
///
/// *Leases.* From preflight to commit the calling thread holds a lease on each block: shared for a
/// read, exclusive for a write. Preflight decides the order of launches on a block. It waits for
/// launches of other threads that hold a conflicting lease. No launch starves: after a bounded
/// number of failed attempts it takes its leases one by one and keeps them. A thread that holds
/// leases must only enqueue. It must not preflight another recorder on the same blocks.
///
/// *Threads.* Preflight and commit belong to one thread. A recorder is not thread-safe.
///
/// *Empty recorders.* A recorder without registrations does nothing.
///
/// *Destruction.* A recorder that is destroyed between preflight and commit publishes the launch,
/// as commit would. A recorder that is destroyed before preflight publishes nothing. Both are
/// reported in every build type; see `set_report_handler`.
///
/// *Cost.* Each thread keeps the memory of its last four recorders. A launch of up to eight blocks
/// allocates nothing. A larger launch allocates only if it exceeds the blocks, dependencies or
/// waits of every earlier one that used the same memory. Memory for more than 4096 blocks is not
/// kept. The time grows as n log n with the number of blocks, which are sorted.
///
/// docs/concepts/launch_recorder.md has the full protocol and the effect of each misuse.
class SLUICE_EXPORT launch_recorder {
 public:
  /// Makes a recorder for a launch on `launch_stream`.
  /// @throws error `stream_misuse` if `launch_stream` is empty
  /// @throws std::bad_alloc if the host has no memory
  ///@{
  [[nodiscard]] static launch_recorder strict(stream_ref launch_stream);
  [[nodiscard]] static launch_recorder permissive(stream_ref launch_stream);
  ///@}

  launch_recorder(launch_recorder&& other) noexcept;
  launch_recorder& operator=(launch_recorder&& other) noexcept;
  ~launch_recorder();

  /// Registers memory that the launch reads, writes, or reads and writes.
  ///
  /// A write covers the whole block if it covers every byte. For a tensor, this requires row-major
  /// order.
  ///
  /// Registration never throws. The first rejection surfaces at preflight, and again at commit.
  /// Rejected are:
  /// - memory without identity, by a strict recorder
  /// - memory of another runtime than the launch stream's
  /// - memory whose resource cannot track uses
  /// - a write of read-only memory
  /// - every registration after preflight
  ///@{
  template <element T>
  launch_recorder& read(const gpu_ref<T>& ref) {
    return note(ref.block(), access_kind::read, covers_block(ref.block(), ref.bytes()), "read");
  }
  template <element T>
  launch_recorder& write(const gpu_ref<T>& ref) {
    return note(ref.block(), access_kind::write, covers_block(ref.block(), ref.bytes()), "write");
  }
  template <element T>
  launch_recorder& read_write(const gpu_ref<T>& ref) {
    return note(ref.block(), access_kind::read_write, covers_block(ref.block(), ref.bytes()),
                "read_write");
  }
  launch_recorder& read(const tensor& t) { return note(t, access_kind::read, "read"); }
  launch_recorder& write(const tensor& t) { return note(t, access_kind::write, "write"); }
  launch_recorder& read_write(const tensor& t) {
    return note(t, access_kind::read_write, "read_write");
  }
  launch_recorder& read(const column& c) { return note(c, access_kind::read, "read"); }
  launch_recorder& write(const column& c) { return note(c, access_kind::write, "write"); }
  launch_recorder& read_write(const column& c) {
    return note(c, access_kind::read_write, "read_write");
  }
  ///@}
  /// Registers a use of a block. `whole` states that a write replaces every byte of the block.
  launch_recorder& use(const block_ref& block, access_kind access, bool whole) {
    return note(block, access, whole, "use");
  }

  /// The stream of the launch.
  [[nodiscard]] stream_id launch_stream() const noexcept;
  /// Whether the recorder rejects or skips memory without identity.
  [[nodiscard]] recorder_mode mode() const noexcept;
  /// The number of distinct blocks that are registered.
  [[nodiscard]] std::size_t recorded_count() const noexcept;

  /// Takes the leases and queues the waits of the launch on the launch stream.
  ///
  /// If the function throws, the recorder holds no lease, nothing must be undone, and the launch
  /// must not be made.
  /// @throws error `stream_misuse` if a registration was rejected
  /// @throws error `stream_misuse` if this thread already holds a conflicting lease
  /// @throws error `stream_misuse` if the function was called before
  /// @throws error `stream_misuse` if the stream has been destroyed
  /// @throws error `stream_misuse` if the stream is adopted and is being captured
  /// @throws error `stream_misuse` if a block was exported to a stream that was being captured when
  ///   the deleter was called; see `export_dlpack`
  /// @throws error `stale_ref` if a block has been freed
  /// @throws error `upstream_failed` if the last write of a block that the launch reads has failed
  /// @throws error `shutting_down` if the runtime is shutting down
  /// @throws error `device_lost` if the device is lost
  /// @throws error `library_failure` if a driver call failed
  /// @throws error `out_of_memory` if there is no memory for an event or a registration
  /// @throws std::bad_alloc if the host has no memory
  void preflight();

  /// Preflights without waiting for another launch. Returns false instead.
  ///
  /// The function returns false where `preflight` would wait for a launch between its preflight and
  /// commit, or would throw because this thread must not wait. It also returns false if another
  /// launch waits for a block. The recorder then holds no lease and is unchanged.
  ///
  /// Do not call the function in a loop while another recorder of this thread is between preflight
  /// and commit. Cancel that recorder first.
  /// @throws error the errors of `preflight`
  [[nodiscard]] bool try_preflight();
  /// Returns the leases without publishing the launch.
  ///
  /// Nothing may have been enqueued for the launch. Waits that were queued stay. The recorder is as
  /// before preflight: `preflight` may be called again, and the destructor reports nothing. After
  /// commit or a refused preflight the function does nothing.
  void cancel() noexcept;

  /// Publishes the launch and returns the leases. Returns the launch's point.
  ///
  /// The point stands for everything enqueued on the stream so far. Later uses of the blocks wait
  /// for it. An empty recorder returns the empty point. `failure` states that the launch has
  /// failed. Its outputs then count as failed.
  ///
  /// Without a successful preflight, or after a rejected registration, the function publishes what
  /// it can and then throws. The enqueued work is then protected from later launches.
  /// @throws error `stream_misuse` if `preflight` has not succeeded
  /// @throws error `stream_misuse` if the function was called before
  /// @throws error `stream_misuse` if the stream has been destroyed
  /// @throws error the rejection, if a registration was rejected
  /// @throws error `device_lost` if the device is lost
  /// @throws error `library_failure` if a driver call failed
  timeline_point commit(const std::optional<error>& failure = std::nullopt);

 private:
  friend class detail::launch_dependencies;
  friend class detail::joint_launches;
  using state_ptr = std::unique_ptr<detail::recorder_state, detail::recorder_state_deleter>;
  explicit launch_recorder(state_ptr state) noexcept;
  launch_recorder& note(const block_ref& block, access_kind access, bool whole, const char* verb);
  launch_recorder& note(const tensor& t, access_kind access, const char* verb);
  launch_recorder& note(const column& c, access_kind access, const char* verb);
  [[nodiscard]] static bool covers_block(const block_ref& block, std::size_t bytes) noexcept {
    return block && bytes == block.bytes();
  }

  state_ptr state_;
};

}  // namespace sluice
