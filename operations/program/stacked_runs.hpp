// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/program_inference.hpp"

namespace sluice::operations {

/// Whether a run like `alone` may be part of a batch, as far as its own inputs and outputs say.
[[nodiscard]] bool may_share_batch(const detail::program_graph& of, const program_inference& alone);
/// Checks that each output of two runs together has a part for each of them.
/// @throws error what a step refuses for two runs, with its name
/// @throws error `invalid_argument` with the name of an output that is not per request
void require_parts(const detail::program_graph& of, const program_inference& alone);
/// Whether several runs like `alone` can be computed as one. If not, they are launched alone.
/// @throws error as `require_parts`
[[nodiscard]] bool can_be_stacked(const detail::program_graph& of, const program_inference& alone);
/// Works out `count` runs like `alone` as one. Only if `can_be_stacked`.
/// @throws error what a step refuses, with its name
[[nodiscard]] program_inference stacked_runs(const detail::program_graph& of,
                                             const program_inference& alone, std::size_t count);

}  // namespace sluice::operations
