// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/model_inputs.hpp"
#include "tools/sluice/session.hpp"

#include <sluice/models/model.hpp>
#include <sluice/operations/host_tensor.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::cli {

/// How far the elements of an output are from those that are expected. Elements that are equal, or
/// NaN in both, have no error.
struct output_difference {
  std::string name{};
  std::size_t elements = 0;
  double largest = 0;               ///< error
  double largest_relative = 0;      ///< error relative to the expected element, if that is not 0
  double root_mean_square = 0;      ///< of the errors
  double relative_mean_square = 0;  ///< its ratio to that of the expected elements
  std::size_t not_finite = 0;       ///< elements whose error is not finite; not in the figures
};

/// @pre the tensors have one type and one shape
[[nodiscard]] output_difference difference_of(std::string name, const host_tensor& found,
                                              const host_tensor& expected);

/// The outputs of a model at a precision, beside those of the precision of the file.
struct model_comparison {
  std::string device{};
  std::uint64_t seed = 0;  ///< of random inputs
  std::vector<output_difference> outputs{};
};

/// Runs two programs with the same inputs: the elements of `inputs`, or random ones.
/// @throws error `invalid_argument` if there is no memory for all values; as the runs
[[nodiscard]] model_comparison compare(session& current, const model_program& compiled,
                                       const model_program& original, const named_tensors& inputs,
                                       const named_specs& specs, std::uint64_t seed);

[[nodiscard]] std::string comparison_text(const model_comparison& comparison);
[[nodiscard]] nlohmann::ordered_json comparison_json(const model_comparison& comparison);

}  // namespace sluice::cli
