// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/program_inference.hpp"

namespace sluice::operations {

/// Works out runs that are computed together, for `program_inference::stacked`. Leaves it empty if
/// these runs are launched alone.
/// @throws error what a step refuses, with its name
/// @throws error `invalid_argument` with the name of an output that is not per request
void add_stacked_runs(const detail::program_graph& of, program_inference& alone);

}  // namespace sluice::operations
