// SPDX-License-Identifier: Apache-2.0
#include "operations/models/extent_rounding.hpp"

#include "operations/models/served_source.hpp"

#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <bit>
#include <optional>
#include <string>

namespace sluice::detail {
namespace {

// The inputs of a request that are padded have at most so many bytes: the actor copies them.
constexpr std::size_t max_padded_bytes = std::size_t{64} << 20U;
// A small request becomes at most so large, and another one so many times as large: requests that
// are padded pass the limits of those that wait with their own size.
constexpr std::size_t max_small_bytes = std::size_t{1} << 20U;
constexpr std::size_t max_factor = 4;

void require_ascending(const std::vector<std::int64_t>& extents) {
  std::int64_t last = 0;
  for (const auto extent : extents) {
    if (extent <= last) {
      throw invalid_argument("buckets", "the extent " + std::to_string(extent) +
                                            (last == 0 ? " is less than 1"
                                                       : " follows " + std::to_string(last) +
                                                             ", but must be greater"));
    }
    last = extent;
  }
}

/// 2^k or 1.5 * 2^k.
[[nodiscard]] std::optional<std::int64_t> next_of_octave(std::int64_t extent) noexcept {
  constexpr std::int64_t most = std::int64_t{1} << 40U;
  if (extent > most) return std::nullopt;
  const auto power = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(extent)));
  const auto between = power / 4 * 3;
  return extent <= between ? between : power;
}

[[nodiscard]] std::optional<std::int64_t> next_of(const std::vector<std::int64_t>& extents,
                                                  std::int64_t extent) noexcept {
  if (extent == 0) return std::nullopt;
  if (extents.empty()) return next_of_octave(extent);
  const auto found = std::ranges::lower_bound(extents, extent);
  if (found == extents.end()) return std::nullopt;
  return *found;
}

/// The size of a tensor in bytes; nothing if it is more than `max_padded_bytes`.
[[nodiscard]] std::optional<std::size_t> bytes_of(element_type type, const extents& shape) {
  std::size_t bytes = size_of(type);
  for (const auto extent : shape) {
    const auto factor = static_cast<std::size_t>(extent);
    if (factor != 0 && bytes > max_padded_bytes / factor) return std::nullopt;
    bytes *= factor;
  }
  return bytes;
}

}  // namespace

extent_rounding::extent_rounding(const std::vector<extent_buckets>& buckets,
                                 const std::vector<model_value>& inputs) {
  for (const auto& each : buckets) {
    require_ascending(each.extents);
    if (!each.symbol.empty() && !each.input.empty()) {
      throw invalid_argument("buckets", "the symbol " + displayed_name(each.symbol) +
                                            " and the input " + displayed_name(each.input) +
                                            " are given, but must be one of them");
    }
    if (each.symbol.empty()) {
      const auto found = std::ranges::find(inputs, each.input, &model_value::name);
      if (found == inputs.end()) {
        throw invalid_argument(
            "buckets", "there is neither a symbol nor an input " + displayed_name(each.input));
      }
      add(static_cast<std::size_t>(found - inputs.begin()), each.axis, each, inputs);
      continue;
    }
    const auto known = dimensions_.size();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto& shape = inputs[i].shape;
      for (std::size_t axis = 0; shape && axis < shape->size(); ++axis) {
        if ((*shape)[axis].symbol == each.symbol) add(i, axis, each, inputs);
      }
    }
    if (dimensions_.size() == known) {
      throw invalid_argument("buckets", "no input has the symbol " + displayed_name(each.symbol));
    }
  }
}

void extent_rounding::add(std::size_t input, std::size_t axis, const extent_buckets& buckets,
                          const std::vector<model_value>& inputs) {
  const auto& declared = inputs[input];
  const auto number = std::to_string(axis);
  if (declared.shape && axis >= declared.shape->size()) {
    throw invalid_argument("buckets", displayed_name(declared.name) + " has the shape " +
                                          to_string(*declared.shape) + ", which has no axis " +
                                          number);
  }
  if (declared.shape && (*declared.shape)[axis].extent) {
    throw invalid_argument("buckets", displayed_name(declared.name) + " has the shape " +
                                          to_string(*declared.shape) + ": axis " + number +
                                          " has a fixed extent");
  }
  for (const auto& known : dimensions_) {
    if (known.input != input || known.axis != axis) continue;
    throw invalid_argument(
        "buckets", "axis " + number + " of " + displayed_name(declared.name) + " is named twice");
  }
  dimensions_.push_back({.input = input, .axis = axis, .extents = buckets.extents});
}

std::vector<extents> extent_rounding::round(const std::vector<run_input>& inputs) const {
  std::vector<extents> shapes;
  if (dimensions_.empty()) return shapes;
  for (const auto& each : inputs) shapes.push_back(each.shape());
  for (const auto& dimension : dimensions_) {
    auto& shape = shapes[dimension.input];
    if (dimension.axis >= shape.size()) return {};
    const auto extent = next_of(dimension.extents, shape[dimension.axis]);
    if (!extent || !inputs[dimension.input].on_host()) return {};
    shape[dimension.axis] = *extent;
  }
  std::size_t sum = 0;
  std::size_t own_sum = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (std::ranges::find(dimensions_, i, &rounded_dimension::input) == dimensions_.end()) continue;
    const auto bytes = bytes_of(inputs[i].type(), shapes[i]);
    if (!bytes || *bytes > max_padded_bytes - sum) return {};
    sum += *bytes;
    own_sum += inputs[i].on_host().bytes();
  }
  if (sum > max_small_bytes && sum / max_factor > own_sum) return {};
  return shapes;
}

}  // namespace sluice::detail
