// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
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

/// A borrowed stream of a `stream_pool`.
///
/// The destructor returns the stream, also if work is queued on it. A moved-from object is empty.
/// The object is not thread-safe. References from `ref` may be used on any thread until the stream
/// is returned. It may outlive the pool.
class SLUICE_EXPORT pooled_stream {
 public:
  pooled_stream() noexcept = default;
  pooled_stream(pooled_stream&& other) noexcept
      : pool_(std::move(other.pool_)), index_(other.index_) {}
  pooled_stream& operator=(pooled_stream&& other) noexcept;
  ~pooled_stream() { release(); }

  /// Whether the object holds a stream.
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(pool_); }
  /// The stream; the empty reference for an empty object.
  [[nodiscard]] stream_ref ref() const& noexcept;
  /// Converts to `ref()`.
  // NOLINTNEXTLINE(google-explicit-constructor)
  [[nodiscard]] operator stream_ref() const& noexcept { return ref(); }
  // Deleted: the reference would name a stream that the pool may hand out again.
  stream_ref ref() const&& = delete;
  operator stream_ref() const&& = delete;  // NOLINT(google-explicit-constructor): as above
  /// The id of the stream; the empty id for an empty object.
  [[nodiscard]] stream_id id() const noexcept { return ref().id(); }
  /// Returns the stream to the pool. The object is then empty.
  void release() noexcept;

  /// For the pool: holds the stream at `index`.
  pooled_stream(std::shared_ptr<detail::stream_pool_state> pool, std::size_t index) noexcept
      : pool_(std::move(pool)), index_(index) {}

 private:
  std::shared_ptr<detail::stream_pool_state> pool_;
  std::size_t index_ = 0;
};

/// Options of a `stream_pool`.
struct stream_pool_options {
  std::size_t size = 16;  ///< the most streams; each is created when it is first needed
  stream_priority priority = stream_priority::normal;  ///< priority of every stream
};

/// A pool of streams of one runtime, for short use.
///
///     stream_pool pool{runtime, {.size = 4}};
///     {
///       const auto borrowed = pool.acquire();
///       enqueue_copy(y, borrowed, x);
///     }  // the stream returns to the pool; the copy may still be running
///
/// The pool hands out a returned stream only after all work queued on it has completed. A borrower
/// therefore never waits for work of another one. Thread-safe. The runtime must outlive the pool.
/// Borrowed streams may outlive both.
class SLUICE_EXPORT stream_pool {
 public:
  /// The largest size of a pool.
  static constexpr std::size_t largest_size = 4096;
  /// The most streams about which one call queries the device.
  static constexpr std::size_t max_asked = 16;
  /// Makes a pool of streams of `runtime`.
  /// @throws error `invalid_argument` if the size is 0 or above `largest_size`
  explicit stream_pool(device_runtime& runtime, stream_pool_options options = {});

  /// Borrows a stream without unfinished work. Does not block.
  ///
  /// If no stream is known to be idle, the call queries the device about `max_asked` streams. The
  /// next call queries others. In a larger pool a call may therefore overlook work that has just
  /// completed.
  /// @throws error `overloaded` if all streams are borrowed or have unfinished work
  /// @throws error the errors of `device_runtime::create_stream`
  [[nodiscard]] pooled_stream acquire();
  /// Borrows a stream like `acquire`, but returns empty instead of throwing `overloaded`.
  /// @throws error the errors of `device_runtime::create_stream`
  [[nodiscard]] std::optional<pooled_stream> try_acquire();

  /// The most streams, as given to the constructor.
  [[nodiscard]] std::size_t size() const noexcept;
  /// The number of streams that are borrowed now.
  [[nodiscard]] std::size_t acquired() const noexcept;

 private:
  std::shared_ptr<detail::stream_pool_state> state_;
};

}  // namespace sluice
