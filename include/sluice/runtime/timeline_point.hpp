// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/device_id.hpp>
#include <sluice/runtime/small_vector.hpp>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace sluice {

/// Identifies one stream of one runtime in this process.
///
/// Neither the number of a runtime nor the number of a stream in its runtime is reused. An id of
/// another runtime is refused and never resolves to an unrelated stream. `device_of` finds the
/// device.
struct stream_id {
  std::uint32_t runtime = 0;  ///< serial number of the runtime; 0 is no runtime
  std::uint32_t index = 0;    ///< number of the stream in that runtime, from 1
  [[nodiscard]] auto operator<=>(const stream_id&) const noexcept = default;
  /// Whether the id names a stream.
  [[nodiscard]] explicit operator bool() const noexcept { return index != 0; }
};

/// The device of the runtime that made the stream; empty for the empty id.
///
/// The runtime may have ended. Thread-safe. Takes a lock and is meant for diagnostics.
[[nodiscard]] SLUICE_EXPORT std::optional<device_id> device_of(stream_id id);
/// Formats an id for messages: "stream 2 of runtime 1 (host:0)".
[[nodiscard]] SLUICE_EXPORT std::string to_string(stream_id id);

/// A position on a stream: all work up to a ticket.
///
/// The tickets of a stream increase. Ticket 0 precedes all work and is complete.
struct timeline_point {
  stream_id stream{};        ///< stream of the point
  std::uint64_t ticket = 0;  ///< number of the ticket on the stream; 0: the empty point
  [[nodiscard]] bool operator==(const timeline_point&) const noexcept = default;
  /// Whether there is work to wait for: false for ticket 0.
  [[nodiscard]] explicit operator bool() const noexcept { return ticket != 0; }
};

/// A list of points. Up to four need no heap memory.
using timeline_points = detail::small_vector<timeline_point, 4>;

/// Raises the point of the same stream in `points` to `point`. Returns whether there is one.
inline bool raise_point(timeline_points& points, timeline_point point) noexcept {
  for (auto& entry : points) {
    if (entry.stream != point.stream) continue;
    if (entry.ticket < point.ticket) entry.ticket = point.ticket;
    return true;
  }
  return false;
}

}  // namespace sluice
