// SPDX-License-Identifier: Apache-2.0
// A batch normalisation of the result of a convolution becomes a part of its filters and bias.
#include "models/host_numbers.hpp"
#include "models/rules/filters.hpp"
#include "models/rules/rules.hpp"

#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/normalization.hpp>

#include <cmath>

namespace sluice::models {

bool fold_batch_norm(optimizer& state, std::size_t step) {
  const auto* const norm = state.operation<batch_norm>(step);
  if (norm == nullptr) return false;
  const auto x = state.value_of(norm->x);
  const auto channels = channels_of_convolution(state, x, step);
  if (!channels || !state.take_elements(*channels)) return false;
  const auto numbers = [&](const operand& parameter, double missing) {
    if (!parameter) return std::vector<double>(*channels, missing);
    auto value = state.value_of(parameter);
    // Parameters of f32 of a model of 16 bits.
    if (const auto* const rounded = state.maker<cast>(value, nullptr)) {
      value = state.value_of(rounded->x);
    }
    const auto* const elements = state.constant_of(value);
    return elements != nullptr ? reals_in(*elements) : std::vector<double>();
  };
  auto factors = numbers(norm->scale, 1);
  auto summands = numbers(norm->bias, 0);
  const auto mean = numbers(norm->mean, 0);
  const auto variance = numbers(norm->variance, 1);
  if (factors.size() != *channels || summands.size() != *channels || mean.size() != *channels ||
      variance.size() != *channels) {
    return false;
  }
  for (std::size_t i = 0; i < *channels; ++i) {
    factors[i] /= std::sqrt(variance[i] + norm->epsilon);
    summands[i] -= mean[i] * factors[i];
    if (!std::isfinite(factors[i]) || !std::isfinite(summands[i])) return false;
  }
  return scale_convolution(state, x, step, factors, summands);
}

}  // namespace sluice::models
