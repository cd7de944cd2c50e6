// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/protocol/region_description.hpp"

#include <span>
#include <string>
#include <string_view>

/// The JSON texts of the requests about system shared memory.
namespace sluice::service {

/// Reads a request to register a region. The name is not part of it.
/// @throws request_error `invalid_argument`, which names the field, if it is no such request
[[nodiscard]] region_description parse_region_request(std::string_view text);

/// The text of the status of regions.
[[nodiscard]] std::string region_status_json(std::span<const region_description> regions);

}  // namespace sluice::service
