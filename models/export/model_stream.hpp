// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/export/program_writer.hpp"

#include <cstddef>
#include <functional>
#include <ostream>
#include <span>

namespace sluice::models {

/// The elements of a constant, which live as long as the `host_tensor`.
using constant_reader = std::function<host_tensor(const written_constant&)>;

/// Writes a model with its constants. At any time, the elements of one constant at most are in
/// memory beside those of the program.
/// @throws error `unsupported` if the model has more than 2 GiB; nothing is written then
/// @throws error what `read` throws
void write_stream(std::ostream& stream, const written_program& what, const constant_reader& read);

}  // namespace sluice::models
