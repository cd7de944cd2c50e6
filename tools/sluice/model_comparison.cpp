// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/model_comparison.hpp"

#include "tools/io/displayed.hpp"
#include "tools/sluice/model_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <random>
#include <utility>

namespace sluice::cli {

namespace {

host_tensors run_once(session& current, const model_program& compiled,
                      const std::vector<host_tensor>& inputs) {
  run_to_host request{.what = compiled.program};
  for (const auto& x : inputs) request.inputs.emplace_back(x);
  return current.ask<host_tensors>(current.device().programs(), std::move(request));
}

bool is_nan(const std::complex<double>& x) {
  return std::isnan(x.real()) || std::isnan(x.imag());
}

}  // namespace

output_difference difference_of(std::string name, const host_tensor& found,
                                const host_tensor& expected) {
  output_difference result{.name = std::move(name), .elements = expected.size()};
  // Every type converts to this one without an error.
  const auto found_numbers = found.to(element_type::c128);
  const auto expected_numbers = expected.to(element_type::c128);
  const auto y = found_numbers.values<std::complex<double>>();
  const auto x = expected_numbers.values<std::complex<double>>();
  double squares = 0;
  double expected_squares = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool are_equal = y[i] == x[i] || (is_nan(y[i]) && is_nan(x[i]));
    const auto size = std::abs(x[i]);
    const auto error = are_equal ? 0.0 : std::abs(y[i] - x[i]);
    if (!std::isfinite(error)) {
      ++result.not_finite;
      continue;
    }
    if (!std::isfinite(size)) continue;
    ++count;
    squares += error * error;
    expected_squares += size * size;
    result.largest = std::max(result.largest, error);
    if (size != 0) result.largest_relative = std::max(result.largest_relative, error / size);
  }
  if (count != 0) result.root_mean_square = std::sqrt(squares / static_cast<double>(count));
  if (expected_squares != 0) result.relative_mean_square = std::sqrt(squares / expected_squares);
  return result;
}

model_comparison compare(session& current, const model_program& compiled,
                         const model_program& original, const named_tensors& inputs,
                         const named_specs& specs, std::uint64_t seed) {
  require_memory_for("--compare", current, original, specs, 2);
  std::mt19937_64 generator(seed);
  const auto tensors = input_tensors(original, inputs, specs, generator);
  const auto expected = run_once(current, original, tensors);
  const auto found = run_once(current, compiled, tensors);
  model_comparison comparison{.device = current.device_name(), .seed = seed};
  for (std::size_t i = 0; i < expected.size(); ++i)
    comparison.outputs.push_back(difference_of(original.outputs[i], found[i], expected[i]));
  return comparison;
}

std::string comparison_text(const model_comparison& comparison) {
  auto text = fmt::format(
      "Compared with the precision of the file, on {}, seed {}\n"
      "  {:>13}  {:>13}  {:>13}  {:>13}\n"
      "  {:>13}  {:>13}  {:>13}  {:>13}\n",
      comparison.device, comparison.seed, "largest", "largest", "root mean", "ratio to that",
      "error", "relative", "square error", "of the output");
  for (const auto& output : comparison.outputs) {
    text += fmt::format("  {:>13.3g}  {:>13.3g}  {:>13.3g}  {:>13.3g}  {}{}\n", output.largest,
                        output.largest_relative, output.root_mean_square,
                        output.relative_mean_square, io::displayed(output.name),
                        output.not_finite == 0
                            ? ""
                            : fmt::format("; {} of {} elements have an error that is not finite",
                                          output.not_finite, output.elements));
  }
  return text;
}

nlohmann::ordered_json comparison_json(const model_comparison& comparison) {
  auto outputs = nlohmann::ordered_json::array();
  for (const auto& output : comparison.outputs) {
    outputs.push_back({{"name", output.name},
                       {"elements", output.elements},
                       {"largest", output.largest},
                       {"largest_relative", output.largest_relative},
                       {"root_mean_square", output.root_mean_square},
                       {"relative_root_mean_square", output.relative_mean_square},
                       {"not_finite", output.not_finite}});
  }
  return {
      {"device", comparison.device}, {"seed", comparison.seed}, {"outputs", std::move(outputs)}};
}

}  // namespace sluice::cli
