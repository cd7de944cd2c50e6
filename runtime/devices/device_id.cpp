// SPDX-License-Identifier: Apache-2.0
#include <sluice/runtime/device_id.hpp>
#include <sluice/runtime/error.hpp>

#include <charconv>

namespace sluice {

std::string to_string(device_id id) {
  return (id.kind == device_kind::cuda ? "cuda:" : "host:") + std::to_string(id.ordinal);
}

device_id parse_device_id(std::string_view name) {
  const auto colon = name.find(':');
  const auto kind = name.substr(0, colon);
  device_id id;
  bool valid = kind == "host" || kind == "cuda";
  id.kind = kind == "cuda" ? device_kind::cuda : device_kind::host;
  if (colon != std::string_view::npos) {
    const auto number = name.substr(colon + 1);
    const auto* end = number.data() + number.size();
    const auto [stop, failure] = std::from_chars(number.data(), end, id.ordinal);
    valid = valid && failure == std::errc{} && stop == end && id.ordinal >= 0;
  }
  if (!valid) {
    throw error(errc::invalid_argument,
                "device '" + std::string(name) + "': expected auto, host, cuda or cuda:N");
  }
  return id;
}

}  // namespace sluice
