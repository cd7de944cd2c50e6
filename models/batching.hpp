// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/models/model.hpp>
#include <sluice/operations/batch_axes.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/tensor_spec.hpp>

#include <span>

namespace sluice::models {

/// An input of the program of a model.
struct program_input {
  const model_value* declaration = nullptr;
  tensor_spec spec{};
};

/// Where the requests of a batch may lie in the inputs and outputs of a model, as `find_batch_axes`
/// proves. These are tried: axis 0 of all inputs; the axes that a symbol of the model names; axes
/// with the extent that axis 0 of the first input has, or of 1. The first of those that are proved
/// and have no input with dimensions that is the same for all is taken; otherwise one that has the
/// requests along axis 0, if there is any. If none is proved, the reason is that of the axes that a
/// symbol names in all inputs, or that of the first. Nothing is tried for a program with too many
/// values.
[[nodiscard]] batch_axes find_batching(const program& what, std::size_t value_count,
                                       std::span<const program_input> inputs);

}  // namespace sluice::models
