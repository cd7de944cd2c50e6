// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/column.hpp>
#include <sluice/runtime/gpu_ref.hpp>
#include <sluice/runtime/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace sluice {

/// How one launch touches a block.
enum class access_kind : std::uint8_t { read = 1, write = 2, read_write = 3 };

/// What a recorder does with memory that has no runtime identity.
enum class recorder_mode : std::uint8_t {
  strict,      ///< rejects it: the launch cannot be made safe
  permissive,  ///< skips it: the caller orders it by other means
};

namespace detail {
class recorder_state;
/// Keeps the state for another recorder of the thread.
struct recorder_state_deleter {
  void operator()(recorder_state* state) const noexcept;
};
class launch_dependencies;
}  // namespace detail

/// Records which blocks one launch reads and writes. `preflight` makes the launch stream wait for
/// every earlier use that conflicts, `commit` publishes the launch to later ones:
///
///     launch_recorder recorder = launch_recorder::strict(stream);
///     recorder.read(a).read(b).write(c);
///     recorder.preflight();
///     ... enqueue on the stream ...
///     recorder.commit();
///
/// The order of launches on a block is decided at preflight, which waits for launches that are
/// between preflight and commit and use the block, too. Every launch gets its turn: after a bounded
/// number of failed attempts it takes its leases one by one and keeps them.
///
/// Registering holds no reference: the blocks' identities are noted and checked at preflight.
/// Repeated registrations of one block merge, read and write to read_write, by full identity (a
/// block that took over the address of a freed one is another block). Between preflight and commit
/// the calling thread holds a lease on every block (shared for reads, exclusive for writes), must
/// only enqueue, and must not preflight another recorder on blocks that it holds. A recorder
/// without registrations is a no-op. Preflight and commit belong to one thread; a recorder is not
/// thread-safe itself.
///
/// Each thread keeps the memory of its last few recorders. A launch of up to eight blocks takes
/// none; a larger one takes memory only if it has more blocks, dependencies or waits than any
/// before it that used the same recorder memory. Memory for more than 4096 blocks is not kept. The
/// time of a launch grows almost linearly with its number of blocks, n log n for sorting them.
///
/// A recorder destroyed between preflight and commit assumes that the launch was made and publishes
/// as commit would; one destroyed before preflight publishes nothing. Both are reported on standard
/// error in every build type.
class launch_recorder {
 public:
  /// @throws error `stream_misuse` when `launch_stream` names no stream
  ///@{
  [[nodiscard]] static launch_recorder strict(stream_ref launch_stream);
  [[nodiscard]] static launch_recorder permissive(stream_ref launch_stream);
  ///@}

  launch_recorder(launch_recorder&& other) noexcept;
  launch_recorder& operator=(launch_recorder&& other) noexcept;
  ~launch_recorder();

  /// The launch reads, writes, or reads and writes this memory. Never throws for a rejected buffer
  /// (one without identity in a strict recorder, a write of read-only memory in any): the first
  /// rejection surfaces at preflight (and at commit). After preflight the set is frozen:
  /// registering then is such a rejection.
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
  launch_recorder& read(const column& c) { return note(c, access_kind::read, "read"); }
  launch_recorder& write(const column& c) { return note(c, access_kind::write, "write"); }
  launch_recorder& read_write(const column& c) {
    return note(c, access_kind::read_write, "read_write");
  }
  ///@}
  /// The same for a whole or partial use of a block; `whole` says that a write replaces every byte.
  launch_recorder& use(const block_ref& block, access_kind access, bool whole) {
    return note(block, access, whole, "use");
  }

  /// The stream that the launch is made on.
  [[nodiscard]] stream_id launch_stream() const noexcept;
  /// Whether the recorder rejects or skips buffers without identity.
  [[nodiscard]] recorder_mode mode() const noexcept;
  /// The number of distinct blocks recorded.
  [[nodiscard]] std::size_t recorded_count() const noexcept;

  /// Takes the leases and queues the waits that the recorded uses need on the launch stream. On
  /// failure no lease is held, nothing needs to be undone, and the launch must not be made.
  /// @throws error `stream_misuse`: a registration was rejected; a block's resource cannot track
  /// uses; this thread holds
  ///   a conflicting lease; called twice; the stream, an adopted one, is being captured; so is that
  ///   of a consumer which a block was exported to (see `export_dlpack`). `stale_ref`: a block has
  ///   been freed. `upstream_failed`: the last write of a block that is read has failed.
  ///   `shutting_down`, `device_lost`, `out_of_memory`.
  void preflight();

  /// The same, but never waits for another launch between its preflight and commit. Returns false,
  /// with nothing held and the recorder as it was, where `preflight` would wait for one or find
  /// that this thread may not, and where another launch waits for a block. Do not call it in a loop
  /// while another recorder of this thread is between preflight and commit: cancel that one first.
  /// @throws error as `preflight`
  [[nodiscard]] bool try_preflight();
  /// The launch is not made, for now: leases are given back and nothing is published; the waits
  /// that were queued stay. Nothing may have been enqueued for it. The recorder is as it was before
  /// preflight, which may be called again, and destroying it is no misuse. After commit, or a
  /// refused preflight, it does nothing.
  void cancel() noexcept;

  /// Publishes the launch: everything enqueued on the stream so far is one point that later uses of
  /// the blocks wait for. Returns that point (the empty point for an empty recorder). With
  /// `failure` the launch is known to have failed, and so has what it wrote. Without preflight, or
  /// after a rejected registration, it publishes what it can all the same, so that nothing is left
  /// unprotected, and then throws.
  /// @throws error `stream_misuse` as above or on a second commit; `device_lost`
  timeline_point commit(const std::optional<error>& failure = std::nullopt);

 private:
  friend class detail::launch_dependencies;
  using state_ptr = std::unique_ptr<detail::recorder_state, detail::recorder_state_deleter>;
  explicit launch_recorder(state_ptr state) noexcept;
  launch_recorder& note(const block_ref& block, access_kind access, bool whole, const char* verb);
  launch_recorder& note(const column& c, access_kind access, const char* verb);
  [[nodiscard]] static bool covers_block(const block_ref& block, std::size_t bytes) noexcept {
    return block && bytes == block.bytes();
  }

  state_ptr state_;
};

}  // namespace sluice
