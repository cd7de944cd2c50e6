// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

/// The hardware that executes a device's work.
enum class device_kind : std::uint8_t {
  host,  ///< the host device: each stream is a thread of this process
  cuda,  ///< an NVIDIA GPU
};

/// Identifies one device of this process: `host:0`, `cuda:1`.
struct device_id {
  device_kind kind = device_kind::host;  ///< host or GPU
  int ordinal = 0;                       ///< number among the devices of that kind
  [[nodiscard]] auto operator<=>(const device_id&) const noexcept = default;
};

/// The name of the device, in the form that `parse_device_id` reads.
[[nodiscard]] SLUICE_EXPORT std::string to_string(device_id id);

/// Parses "host", "host:N", "cuda" or "cuda:N". Without a number, N is 0.
///
/// The function does not check whether the device exists.
/// @throws error `invalid_argument` if `name` has none of these forms
[[nodiscard]] SLUICE_EXPORT device_id parse_device_id(std::string_view name);

}  // namespace sluice
