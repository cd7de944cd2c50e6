// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/program_graph.hpp"
#include "operations/program/program_inference.hpp"

#include <sluice/operations/scalar.hpp>
#include <sluice/operations/tensor_spec.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice::operations {

/// Infers a step once more, with its result where the output that it becomes lies: row-major, if it
/// is downloaded. `specs` are the properties of the other operands, and `found` is what the step
/// does with a new result.
///
/// Nothing, and `found` as it was, if a step or a view reads the result, if the output has gaps, or
/// if the operation would need more packed copies: then the result is copied at the end.
void lie_as_output(const detail::program_graph& graph, std::uint32_t number,
                   const std::vector<given_output>& outputs,
                   std::span<const std::optional<tensor_spec>> specs,
                   std::span<const scalar> scalars, program_inference::step& found);

}  // namespace sluice::operations
