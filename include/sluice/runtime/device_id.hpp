// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

/// What does the computing behind a device.
enum class device_kind : std::uint8_t {
  host,  ///< the embedded device: every stream is a thread of this process
  cuda,  ///< an NVIDIA GPU
};

/// Names one device of this process: `host:0`, `cuda:1`.
struct device_id {
  device_kind kind = device_kind::host;  ///< host or GPU
  int ordinal = 0;                       ///< number among the devices of that kind
  [[nodiscard]] auto operator<=>(const device_id&) const noexcept = default;
};

/// The device's name, as `parse_device_id` reads it.
[[nodiscard]] std::string to_string(device_id id);

/// Reads "host", "host:N", "cuda" or "cuda:N"; without a number, N is 0.
/// @throws error `invalid_argument` when `name` is none of these. Whether the device exists is not
/// asked here.
[[nodiscard]] device_id parse_device_id(std::string_view name);

}  // namespace sluice
