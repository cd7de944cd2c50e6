// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/program_inference.hpp"

namespace sluice::operations {

/// Checks that no step and no view mixes runs that are computed as one. `alone` is one run, `two`
/// and `three` are two and three of them, whose inputs per request lie one behind the other along
/// axis 0.
///
/// The axis of a value along which the runs lie is the one whose extent is proportional to their
/// number. A step mixes them if it couples this axis of an operand (`inference::couple`), or if
/// its result has no such axis. A view mixes them if the parts of the runs do not follow each
/// other along an axis.
/// @throws error `invalid_argument` with the name of the step or view, and the axis
void require_independent_runs(const detail::program_graph& graph, const program_inference& alone,
                              const program_inference& two, const program_inference& three);

}  // namespace sluice::operations
