// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device.hpp>
#include <sluice/runtime/stream.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

namespace sluice {

class device_runtime;

namespace detail {
class stream_pool_state;
}

/// A stream of a pool for as long as this lives; it goes back then, work queued on it or not.
/// Moving leaves an empty one. Not thread-safe itself; its `ref` may be used anywhere until it goes
/// back. It may outlive the pool.
class pooled_stream {
 public:
  pooled_stream() noexcept = default;
  pooled_stream(pooled_stream&& other) noexcept
      : pool_(std::move(other.pool_)), index_(other.index_) {}
  pooled_stream& operator=(pooled_stream&& other) noexcept;
  ~pooled_stream() { release(); }

  /// Whether it owns a stream.
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(pool_); }
  /// No stream when empty.
  [[nodiscard]] stream_ref ref() const& noexcept;
  /// As `ref`, so that an owner can stand where a stream is asked for.
  // NOLINTNEXTLINE(google-explicit-constructor)
  [[nodiscard]] operator stream_ref() const& noexcept { return ref(); }
  // A temporary owner would leave a reference to a stream that the pool may hand out again.
  stream_ref ref() const&& = delete;
  operator stream_ref() const&& = delete;  // NOLINT(google-explicit-constructor): as above
  /// The id of the stream; the empty id for an empty owner.
  [[nodiscard]] stream_id id() const noexcept { return ref().id(); }
  /// Gives it back; it is empty then.
  void release() noexcept;

  /// For the pool.
  pooled_stream(std::shared_ptr<detail::stream_pool_state> pool, std::size_t index) noexcept
      : pool_(std::move(pool)), index_(index) {}

 private:
  std::shared_ptr<detail::stream_pool_state> pool_;
  std::size_t index_ = 0;
};

/// How a `stream_pool` is made.
struct stream_pool_options {
  std::size_t size = 16;  ///< streams at most; each is made when it is first needed
  stream_priority priority = stream_priority::normal;  ///< priority of every stream
};

/// Streams of one runtime for short use, made once and handed out again. A stream that was given
/// back is handed out only when the work queued on it has completed, so that nobody waits behind
/// work of a stranger. Thread-safe. The runtime must outlive the pool; streams that are out may
/// outlive both.
class stream_pool {
 public:
  /// The largest size of a pool.
  static constexpr std::size_t largest_size = 4096;
  /// How many streams one call asks the device about at most.
  static constexpr std::size_t most_asked = 16;
  /// @throws error `invalid_argument` when the size is 0 or beyond `largest_size`
  explicit stream_pool(device_runtime& runtime, stream_pool_options options = {});

  /// A stream without unfinished work. Does not block. Where no stream's work is known to have
  /// completed, the device is asked about `most_asked` of them, by each call about others: in a
  /// larger pool one call may overlook work that has just completed.
  /// @throws error `overloaded` when all of them are out or have unfinished work; and as
  /// `device_runtime::create_stream`
  [[nodiscard]] pooled_stream acquire();
  /// The same; empty instead of `overloaded`.
  [[nodiscard]] std::optional<pooled_stream> try_acquire();

  /// The size that the pool was made with.
  [[nodiscard]] std::size_t size() const noexcept;
  /// How many are out at this moment.
  [[nodiscard]] std::size_t acquired() const noexcept;

 private:
  std::shared_ptr<detail::stream_pool_state> state_;
};

}  // namespace sluice
