// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/protocol/repository_entry.hpp"

#include <span>
#include <string>
#include <string_view>

/// The JSON texts of the requests about the model repository.
namespace sluice::service {

/// What a request for the index asks for.
struct index_request {
  bool only_ready = false;
};

/// Reads a request for the index, which may be empty.
/// @throws request_error `invalid_argument` if it is no such request
[[nodiscard]] index_request parse_index_request(std::string_view text);

/// Reads a request to load a model, which may be empty.
/// @throws request_error `unimplemented` if it brings a config or files, `invalid_argument` if it
/// is no such request
void check_load_request(std::string_view text);

/// Reads a request to unload a model, which may be empty.
/// @throws request_error `invalid_argument` if it is no such request
void check_unload_request(std::string_view text);

/// The text of the index.
[[nodiscard]] std::string repository_index_json(std::span<const repository_entry> entries,
                                                const index_request& request);

}  // namespace sluice::service
