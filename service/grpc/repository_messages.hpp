// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/grpc/wire_reader.hpp"
#include "service/protocol/repository_entry.hpp"

#include <span>
#include <string>

/// The messages of the methods about the model repository.
namespace sluice::service {

/// Reads `RepositoryIndexRequest`. Returns whether it asks for the models that are served alone.
/// @throws request_error `invalid_argument` if the bytes are malformed; `unimplemented` if it names
/// a repository
[[nodiscard]] bool read_index_request(wire_reader message);

/// Reads the name of the model in `RepositoryModelLoadRequest`.
/// @throws request_error as `read_index_request`; `invalid_argument` if the name is missing or
/// there is no such parameter; `unimplemented` if it brings a config or files
[[nodiscard]] std::string read_load_request(wire_reader message);
/// Reads the name of the model in `RepositoryModelUnloadRequest`.
/// @throws request_error as `read_load_request`
[[nodiscard]] std::string read_unload_request(wire_reader message);

/// `RepositoryIndexResponse`.
[[nodiscard]] std::string repository_index_message(std::span<const repository_entry> entries,
                                                   bool only_ready);

}  // namespace sluice::service
