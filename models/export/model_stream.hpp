// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/export/program_writer.hpp"

#include <google/protobuf/io/zero_copy_stream.h>

#include <functional>

namespace sluice::models {

/// The elements of a constant, which live as long as the `host_tensor`.
using constant_reader = std::function<host_tensor(const written_constant&)>;

/// Writes a model with its constants. At any time, the elements of one constant at most are in
/// memory beside those of the program. Returns false if the stream takes no more bytes: no further
/// constant is read then.
/// @throws error `unsupported` if the model has 2 GiB or more; nothing is written then
/// @throws error what `read` throws
[[nodiscard]] bool write_stream(google::protobuf::io::ZeroCopyOutputStream& stream,
                                const written_program& program, const constant_reader& read);

}  // namespace sluice::models
