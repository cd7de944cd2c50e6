// SPDX-License-Identifier: Apache-2.0
#include "models/batching.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::models {
namespace {

using axes = std::vector<std::optional<std::size_t>>;

/// So many assignments of axes are tried, only the first for a program with more than
/// `many_values`, and none for one with more than `most_values`: what a file costs is bounded.
///@{
constexpr std::size_t max_candidates = 16;
constexpr std::size_t many_values = 10'000;
constexpr std::size_t most_values = 100'000;
///@}

axes first_axes(std::span<const program_input> inputs) {
  axes all;
  for (const auto& input : inputs) {
    all.push_back(input.spec.rank() != 0 ? std::optional<std::size_t>(0) : std::nullopt);
  }
  return all;
}

/// The axes of a symbol. Inputs without it, or with several of it, are the same for all requests.
axes axes_of(const std::string& symbol, std::span<const program_input> inputs) {
  axes all;
  for (const auto& input : inputs) {
    auto& axis = all.emplace_back();
    const auto& shape = input.declaration->shape;
    if (!shape) continue;
    const auto has_symbol = [&](const model_dimension& d) {
      return d.symbol == symbol;
    };
    if (std::count_if(shape->begin(), shape->end(), has_symbol) != 1) continue;
    axis = static_cast<std::size_t>(std::find_if(shape->begin(), shape->end(), has_symbol) -
                                    shape->begin());
  }
  return all;
}

std::vector<std::string> symbols_of(std::span<const program_input> inputs) {
  std::vector<std::string> symbols;
  for (const auto& input : inputs) {
    if (!input.declaration->shape) continue;
    for (const auto& dimension : *input.declaration->shape) {
      const auto& symbol = dimension.symbol;
      if (symbol.empty() || std::find(symbols.begin(), symbols.end(), symbol) != symbols.end()) {
        continue;
      }
      symbols.push_back(symbol);
    }
  }
  return symbols;
}

/// All ways to name an axis with this extent in each input that has one, up to `max_candidates`.
std::vector<axes> axes_of(std::int64_t extent, std::span<const program_input> inputs) {
  std::vector<axes> all{{}};
  for (const auto& input : inputs) {
    std::vector<std::optional<std::size_t>> choices;
    for (std::size_t d = 0; d < input.spec.rank(); ++d) {
      if (input.spec.shape[d] == extent) choices.emplace_back(d);
    }
    if (choices.empty()) choices.emplace_back();
    std::vector<axes> longer;
    for (const auto& start : all) {
      for (const auto& choice : choices) {
        if (longer.size() == max_candidates) break;
        longer.push_back(start);
        longer.back().push_back(choice);
      }
    }
    all = std::move(longer);
  }
  return all;
}

/// What is tried, in order.
std::vector<axes> candidates_of(std::span<const program_input> inputs) {
  std::vector<axes> candidates;
  const auto add = [&](axes candidate) {
    const bool has_axis = std::any_of(candidate.begin(), candidate.end(),
                                      [](const auto& axis) { return axis.has_value(); });
    const bool is_new =
        std::find(candidates.begin(), candidates.end(), candidate) == candidates.end();
    if (has_axis && is_new && candidates.size() < max_candidates) {
      candidates.push_back(std::move(candidate));
    }
  };
  add(first_axes(inputs));
  for (const auto& symbol : symbols_of(inputs)) add(axes_of(symbol, inputs));
  const auto first = std::find_if(inputs.begin(), inputs.end(),
                                  [](const auto& input) { return input.spec.rank() != 0; });
  if (first == inputs.end()) return candidates;
  for (const auto extent : {first->spec.shape[0], std::int64_t{1}}) {
    for (auto& candidate : axes_of(extent, inputs)) add(std::move(candidate));
  }
  return candidates;
}

/// Whether the requests lie along axis 0 of each input, or it is the same for all, and of each
/// output.
bool is_along_first(const batch_axes& found) noexcept {
  return std::all_of(found.inputs.begin(), found.inputs.end(),
                     [](const auto& axis) { return axis.value_or(0) == 0; }) &&
         std::all_of(found.outputs.begin(), found.outputs.end(),
                     [](auto axis) { return axis == 0; });
}

/// From this merit on, no other axes are tried.
constexpr int enough_merit = 4;
/// The higher, the better. Requests seldom share an input with dimensions, and parts along axis 0
/// lie together in memory. The reason that tells most is about axes that the model itself names.
int merit_of(const batch_axes& found, bool is_named, std::span<const program_input> inputs) {
  bool has_shared = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    has_shared = has_shared || (!found.inputs[i] && inputs[i].spec.rank() != 0);
  }
  if (!found) return is_named && !has_shared ? 1 : 0;
  return (has_shared ? 2 : 4) + (is_along_first(found) ? 1 : 0);
}

}  // namespace

batch_axes find_batching(const program& what, std::size_t value_count,
                         std::span<const program_input> inputs) {
  if (value_count > most_values) {
    return {.inputs = axes(inputs.size()),
            .reason = "the program has more than " + std::to_string(most_values) + " values"};
  }
  std::vector<tensor_spec> specs;
  for (const auto& input : inputs) specs.push_back(input.spec);
  auto candidates = candidates_of(inputs);
  if (value_count > many_values) candidates.resize(std::min<std::size_t>(candidates.size(), 1));
  std::vector<axes> named;
  for (const auto& symbol : symbols_of(inputs)) named.push_back(axes_of(symbol, inputs));
  std::optional<batch_axes> best;
  int best_merit = -1;
  for (const auto& candidate : candidates) {
    batch_axes found;
    try {
      found = find_batch_axes(what, specs, candidate);
    } catch (const error& e) {
      // What a run is refused for, it is told itself.
      found = {.inputs = candidate, .reason = e.what()};
    }
    const bool is_named = std::find(named.begin(), named.end(), candidate) != named.end();
    const auto merit = merit_of(found, is_named, inputs);
    if (merit <= best_merit) continue;
    best_merit = merit;
    best = std::move(found);
    if (best_merit >= enough_merit) break;
  }
  if (best) return *std::move(best);
  return {.inputs = axes(inputs.size()), .reason = "no input has an axis"};
}

}  // namespace sluice::models
