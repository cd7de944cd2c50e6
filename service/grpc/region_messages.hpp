// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/grpc/wire_reader.hpp"
#include "service/protocol/region_description.hpp"

#include <span>
#include <string>

/// The messages of the methods about system shared memory.
namespace sluice::service {

/// Reads a message `SystemSharedMemoryRegisterRequest`.
/// @throws request_error `invalid_argument` if the bytes are malformed
[[nodiscard]] region_description read_region_request(wire_reader message);
/// Reads the name of a region in a request for its status or to unregister it; empty: all regions.
/// @throws request_error `invalid_argument` if the bytes are malformed
[[nodiscard]] std::string read_region_name(wire_reader message);
/// The message `SystemSharedMemoryStatusResponse`.
[[nodiscard]] std::string region_status_message(std::span<const region_description> regions);

}  // namespace sluice::service
