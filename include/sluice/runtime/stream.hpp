// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// Names a stream without owning it. Copying is free; valid as long as the `stream` that it came
/// from, or any runtime memory, lives. There is no default stream: a default-made `stream_ref`
/// names none, and using it is an error.
class stream_ref {
 public:
  stream_ref() noexcept = default;
  stream_ref(int) = delete;
  stream_ref(std::nullptr_t) = delete;

  /// Whether the reference names a stream.
  [[nodiscard]] explicit operator bool() const noexcept { return timeline_ != nullptr; }
  [[nodiscard]] bool operator==(const stream_ref&) const noexcept = default;

  /// The stream's id; the empty id for no stream.
  [[nodiscard]] stream_id id() const noexcept;
  /// The device that the stream belongs to. @throws error `stream_misuse` for no stream
  [[nodiscard]] sluice::device& device() const;
  /// The device's own stream, for library calls: on CUDA a `cudaStream_t` (`reinterpret_cast` it).
  /// @throws error `stream_misuse` for no stream
  [[nodiscard]] native_stream* native() const;

  /// Whether the work up to `ticket` has finished, as far as is known without asking the driver.
  /// If so, what the caller does next comes after it.
  /// @throws error `stream_misuse` for no stream
  [[nodiscard]] bool completed(std::uint64_t ticket) const;
  /// Blocks until the work queued so far has finished; `completed` then answers true for every
  /// ticket taken before the call. For tests and examples; actors never call it.
  /// @throws error `device_lost`, `stream_misuse` (no stream, or an adopted one that is captured)
  void synchronize() const;

 private:
  friend class detail::timeline;
  friend class stream;
  explicit stream_ref(detail::timeline* t) noexcept : timeline_(t) {}

  detail::timeline* timeline_ = nullptr;
};

/// Owns a stream of a runtime. Moving leaves an empty owner. Destroying it retires the stream
/// behind the work that is queued on it, without waiting; points on it stay valid. Not thread-safe
/// itself; its `ref` may be used anywhere.
///
/// Its work is not for capturing into a graph (`cudaStreamBeginCapture`): what a capture holds does
/// not run, so no point would be reached. An adopted stream that is being captured refuses
/// launches, allocations and `synchronize` with `stream_misuse`; a stream of the runtime's own is
/// not asked, since that would cost every launch, and must never be captured. Captures of other
/// streams, in any thread and mode, are none of the runtime's business, and it is none of theirs.
class stream {
 public:
  stream() noexcept = default;
  stream(stream&& other) noexcept;
  stream& operator=(stream&& other) noexcept;
  ~stream();

  /// Whether it owns a stream.
  [[nodiscard]] explicit operator bool() const noexcept { return timeline_ != nullptr; }
  /// The stream; no stream for an empty owner.
  [[nodiscard]] stream_ref ref() const& noexcept { return stream_ref(timeline_); }
  /// As `ref`, so that an owner can stand where a reference is asked for.
  // NOLINTNEXTLINE(google-explicit-constructor)
  [[nodiscard]] operator stream_ref() const& noexcept { return ref(); }
  // A temporary owner would leave a reference to a retired stream.
  stream_ref ref() const&& = delete;
  operator stream_ref() const&& = delete;  // NOLINT(google-explicit-constructor): as above
  /// The id of the stream; the empty id for an empty owner.
  [[nodiscard]] stream_id id() const noexcept { return ref().id(); }
  /// Blocks as `stream_ref::synchronize`.
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
