// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/device.hpp>
#include <sluice/runtime/timeline_point.hpp>

#include <cstdint>
#include <memory>

namespace sluice {

class device_runtime;
namespace detail {
class timeline;
class runtime_core;
class stream_pool_state;
}  // namespace detail

/// Refers to a stream without owning it.
///
/// A copy is free. The reference is valid while the `stream` that it came from exists, or any
/// memory of the runtime. There is no default stream: a default-constructed reference is empty, and
/// its use is an error.
class SLUICE_EXPORT stream_ref {
 public:
  stream_ref() noexcept = default;
  stream_ref(int) = delete;
  stream_ref(std::nullptr_t) = delete;

  /// Whether the reference names a stream.
  [[nodiscard]] explicit operator bool() const noexcept { return timeline_ != nullptr; }
  [[nodiscard]] bool operator==(const stream_ref&) const noexcept = default;

  /// The id of the stream; the empty id for an empty reference.
  [[nodiscard]] stream_id id() const noexcept;
  /// The device of the stream.
  /// @throws error `stream_misuse` if the reference is empty
  [[nodiscard]] sluice::device& device() const;
  /// The stream in the device's own type, for library calls. On CUDA `reinterpret_cast` it to
  /// `cudaStream_t`.
  /// @throws error `stream_misuse` if the reference is empty
  [[nodiscard]] native_stream* native() const;

  /// Whether the work up to `ticket` is known to have completed. Does not call the driver.
  ///
  /// If it returns true, the completed work happens before later operations of the caller.
  /// @throws error `stream_misuse` if the reference is empty
  [[nodiscard]] bool completed(std::uint64_t ticket) const;
  /// Blocks until the work queued so far has completed.
  ///
  /// `completed` then returns true for every ticket taken before the call. It is meant for tests
  /// and examples; actors never call it.
  /// @throws error `device_lost` if the device is lost
  /// @throws error `stream_misuse` if the reference is empty
  /// @throws error `stream_misuse` if the stream is adopted and is being captured
  void synchronize() const;

 private:
  friend class detail::timeline;
  friend class stream;
  explicit stream_ref(detail::timeline* t) noexcept : timeline_(t) {}

  detail::timeline* timeline_ = nullptr;
};

/// Owns a stream of a runtime.
///
///     const auto stream = runtime.create_stream();
///     const auto x = runtime.allocate<float>(1000, stream, "x");
///
/// The destructor retires the stream after the work that is queued on it, and does not wait. Points
/// on the stream stay valid. A moved-from owner is empty. An owner is not thread-safe; references
/// from `ref` may be used on any thread.
///
/// The work of a stream must not be captured into a graph (`cudaStreamBeginCapture`), because
/// captured work does not run and its points would never be reached. On an adopted stream that is
/// being captured, launches, allocations and `synchronize` throw `stream_misuse`. Streams that the
/// runtime made must never be captured. The runtime does not check them, because the check would
/// cost every launch. Captures of other streams, on any thread and in any mode, do not affect the
/// runtime and are not affected by it.
class SLUICE_EXPORT stream {
 public:
  stream() noexcept = default;
  stream(stream&& other) noexcept;
  stream& operator=(stream&& other) noexcept;
  ~stream();

  /// Whether the object owns a stream.
  [[nodiscard]] explicit operator bool() const noexcept { return timeline_ != nullptr; }
  /// The stream; the empty reference for an empty owner.
  [[nodiscard]] stream_ref ref() const& noexcept { return stream_ref(timeline_); }
  /// Converts to `ref()`.
  // NOLINTNEXTLINE(google-explicit-constructor)
  [[nodiscard]] operator stream_ref() const& noexcept { return ref(); }
  // Deleted: the reference would name a stream that is destroyed at once.
  stream_ref ref() const&& = delete;
  operator stream_ref() const&& = delete;  // NOLINT(google-explicit-constructor): as above
  /// The id of the stream; the empty id for an empty owner.
  [[nodiscard]] stream_id id() const noexcept { return ref().id(); }
  /// Blocks until the work queued so far has completed; see `stream_ref::synchronize`.
  void synchronize() const { ref().synchronize(); }

 private:
  friend class device_runtime;
  friend class detail::stream_pool_state;
  stream(std::shared_ptr<detail::runtime_core> core, detail::timeline* t) noexcept;
  void retire() noexcept;

  std::shared_ptr<detail::runtime_core> core_;
  detail::timeline* timeline_ = nullptr;
};

}  // namespace sluice
