// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device_id.hpp>
#include <sluice/runtime/small_vector.hpp>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace sluice {

/// Identifies one stream of one runtime in this process, and with it the device (`device_of`): a
/// runtime's number is never used again, nor is a stream's in its runtime. An id that comes from
/// another runtime is refused, never resolved to an unrelated stream.
struct stream_id {
  std::uint32_t runtime =
      0;                    ///< serial number of the runtime that made the stream; 0 is no runtime
  std::uint32_t index = 0;  ///< number of the stream in that runtime, from 1
  [[nodiscard]] auto operator<=>(const stream_id&) const noexcept = default;
  /// Whether the id names a stream.
  [[nodiscard]] explicit operator bool() const noexcept { return index != 0; }
};

/// The device of the runtime that made the stream, which may be gone; empty for the empty id.
/// Thread-safe; takes a lock, for diagnostics.
[[nodiscard]] std::optional<device_id> device_of(stream_id id);
/// For messages: "stream 2 of runtime 1 (host:0)".
[[nodiscard]] std::string to_string(stream_id id);

/// "Everything up to here on that stream". Tickets of a stream only grow; ticket 0 is before all
/// work and complete.
struct timeline_point {
  stream_id stream{};        ///< the stream
  std::uint64_t ticket = 0;  ///< number of the launch on the stream; 0: the empty point
  [[nodiscard]] bool operator==(const timeline_point&) const noexcept = default;
  /// Whether there is work to wait for: false for ticket 0.
  [[nodiscard]] explicit operator bool() const noexcept { return ticket != 0; }
};

/// Some points; no heap up to four.
using timeline_points = detail::small_vector<timeline_point, 4>;

/// Raises the point in `points` that is of the same stream to `point`, where there is one. Returns
/// whether there was.
inline bool raise_point(timeline_points& points, timeline_point point) noexcept {
  for (auto& known : points) {
    if (known.stream != point.stream) continue;
    if (known.ticket < point.ticket) known.ticket = point.ticket;
    return true;
  }
  return false;
}

}  // namespace sluice
