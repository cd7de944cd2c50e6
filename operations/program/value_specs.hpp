// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/tensor_spec.hpp>

#include <optional>
#include <span>
#include <vector>

namespace sluice::detail {

class program_graph;

/// The properties of each value of a program that takes no scalars, for inputs with these
/// properties; nothing of a result that its step does not make.
/// @throws error what a step refuses, with its name
[[nodiscard]] SLUICE_EXPORT std::vector<std::optional<tensor_spec>> specs_of_values(
    const program_graph& graph, std::span<const tensor_spec> inputs);

}  // namespace sluice::detail
