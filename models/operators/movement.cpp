// SPDX-License-Identifier: Apache-2.0
// Elements at other places.
#include "models/join.hpp"
#include "models/operator_table.hpp"

#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/movement.hpp>
#include <sluice/operations/rearrangement.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

namespace sluice::models {

namespace {

results import_concat(const node& n) {
  const auto inputs = n.all_inputs();
  const auto axis = n.attribute("axis", std::int64_t{1});
  return concatenate_values(n, inputs,
                            static_cast<std::int64_t>(n.dimension(axis, inputs.front().rank())));
}

/// The extents of the parts of a tensor that is split.
std::vector<std::int64_t> parts_of(const node& n, std::int64_t extent) {
  if (const auto stated = n.integers_of(1, "split")) return *stated;
  const auto count = n.attribute("num_outputs", static_cast<std::int64_t>(n.output_count()));
  if (count < 1 || count > static_cast<std::int64_t>(n.output_count())) {
    throw n.refusal("num_outputs", "is not the number of outputs");
  }
  // The last part is smaller if the extent is not a multiple.
  const auto part = (extent + count - 1) / count;
  std::vector<std::int64_t> parts;
  for (std::int64_t first = 0; first < count * part; first += part) {
    parts.push_back(std::max(std::min(part, extent - first), std::int64_t{0}));
  }
  parts.resize(static_cast<std::size_t>(count), 0);
  return parts;
}
results import_split(const node& n) {
  const auto& x = n.input(0);
  const auto axis = n.dimension(n.attribute("axis", std::int64_t{0}), x.rank());
  const auto parts = parts_of(n, x.extent(axis));
  if (std::accumulate(parts.begin(), parts.end(), std::int64_t{0}) != x.extent(axis)) {
    throw n.refusal("split", "does not add up to the extent");
  }
  results all;
  std::int64_t first = 0;
  for (const auto part : parts) {
    all.push_back(x.slice(axis, first, first + part));
    first += part;
  }
  return all;
}

/// The elements first, first + step, … before last, as Python has them.
value slice_dimension(const node& n, const value& x, std::size_t axis, std::int64_t first,
                      std::int64_t last, std::int64_t step) {
  const auto extent = x.extent(axis);
  if (step == 0) throw n.refusal("steps", "has a 0");
  const auto from_end = [&](std::int64_t number) {
    return number < 0 ? number + extent : number;
  };
  if (step > 0) {
    first = std::clamp(from_end(first), std::int64_t{0}, extent);
    last = std::clamp(from_end(last), first, extent);
    // A view takes no larger step than the extent.
    return x.slice(axis, first, last, std::min(step, std::max(extent, std::int64_t{1})));
  }
  const auto lowest = std::int64_t{-1};
  first = std::clamp(from_end(std::max(first, -extent - 1)), lowest, extent - 1);
  last = std::clamp(last < -extent ? lowest : from_end(last), lowest, extent - 1);
  const auto distance = step < -extent - 1 ? extent + 1 : -step;
  const auto count = first > last ? (first - last + distance - 1) / distance : 0;
  if (count == 0) return x.slice(axis, 0, 0);
  const auto least = first - (count - 1) * distance;
  return n.add(reverse{.x = x.slice(axis, least, first + 1, distance),
                       .axes = {static_cast<std::int64_t>(axis)}});
}
results import_slice(const node& n) {
  auto y = n.input(0);
  const auto starts = n.integers_of(1, "starts");
  const auto ends = n.integers_of(2, "ends");
  if (!starts || !ends) throw n.refusal("starts", "starts or ends are not given");
  std::vector<std::int64_t> first_axes(starts->size());
  std::iota(first_axes.begin(), first_axes.end(), std::int64_t{0});
  const auto axes = n.integers_of(3, "axes").value_or(first_axes);
  const auto steps = n.integers_of(4, "steps").value_or(std::vector<std::int64_t>(axes.size(), 1));
  if (ends->size() != starts->size() || axes.size() != starts->size() ||
      steps.size() != starts->size()) {
    throw n.refusal("starts", "has another number of elements than ends, axes or steps");
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    y = slice_dimension(n, y, n.dimension(axes[i], y.rank(), "axes"), (*starts)[i], (*ends)[i],
                        steps[i]);
  }
  return y;
}

pad_mode pad_mode_of(const node& n) {
  const auto mode = n.attribute("mode", "constant");
  if (mode == "constant") return pad_mode::constant;
  if (mode == "edge") return pad_mode::edge;
  if (mode == "reflect") return pad_mode::reflect;
  if (mode == "wrap") return pad_mode::wrap;
  throw n.unsupported("mode", "is '" + mode + "'");
}
results import_pad(const node& n) {
  const auto& x = n.input(0);
  const auto pads = n.integers_of(1, "pads");
  if (!pads) throw n.refusal("pads", "are not given");
  std::vector<std::int64_t> axes(x.rank());
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  if (n.has_input(3)) axes = n.integers(3, "axes");
  if (pads->size() != 2 * axes.size()) throw n.refusal("pads", "has not two numbers for each axis");
  pad padded{.x = x, .mode = pad_mode_of(n)};
  for (std::size_t i = 0; i < x.rank(); ++i) {
    padded.before.push_back(0);
    padded.after.push_back(0);
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = n.dimension(axes[i], x.rank(), "axes");
    padded.before[axis] += (*pads)[i];
    padded.after[axis] += (*pads)[axes.size() + i];
  }
  if (padded.mode == pad_mode::constant) {
    if (n.has_input(2)) {
      padded.value = n.real(2, "constant_value");
    } else {
      padded.value = n.attribute("value", 0.0);
    }
  }
  return n.add(std::move(padded));
}
results import_center_crop_pad(const node& n) {
  const auto& x = n.input(0);
  const auto shape = n.integers(1, "shape");
  std::vector<std::int64_t> axes(x.rank());
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  axes = n.attribute("axes", axes);
  if (axes.size() != shape.size()) throw n.refusal("shape", "has not one number for each axis");
  pad changed{.x = x};
  for (std::size_t i = 0; i < x.rank(); ++i) {
    changed.before.push_back(0);
    changed.after.push_back(0);
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = n.dimension(axes[i], x.rank(), "axes");
    const auto more = shape[i] - x.extent(axis);
    // The odd element is added, or left, behind the others.
    changed.before[axis] = more >= 0 ? more / 2 : -((-more) / 2);
    changed.after[axis] = more - changed.before[axis];
  }
  return n.add(std::move(changed));
}

results import_tile(const node& n) {
  return n.add(tile{.x = n.input(0), .repeats = extents(n.integers(1, "repeats"))});
}
results import_triangle(const node& n) {
  return n.add(triangle{.x = n.input(0),
                        .upper = n.attribute("upper", std::int64_t{1}) != 0,
                        .diagonal = n.has_input(1) ? n.integer(1, "k") : 0});
}
depth_order order_of(const node& n) {
  return n.choice<depth_order>("mode", {{"DCR", depth_order::dcr}, {"CRD", depth_order::crd}});
}
results import_depth_to_space(const node& n) {
  return n.add(depth_to_space{
      .x = n.input(0), .block = n.attribute("blocksize", std::int64_t{0}), .order = order_of(n)});
}
results import_space_to_depth(const node& n) {
  return n.add(space_to_depth{
      .x = n.input(0), .block = n.attribute("blocksize", std::int64_t{0}), .order = order_of(n)});
}
results import_reverse_sequence(const node& n) {
  return n.add(reverse_sequence{.x = n.input(0),
                                .lengths = n.input(1),
                                .time_axis = n.attribute("time_axis", std::int64_t{0}),
                                .batch_axis = n.attribute("batch_axis", std::int64_t{1})});
}

constexpr std::array movement_entries{
    operator_entry{"CenterCropPad", import_center_crop_pad},
    operator_entry{"Concat", import_concat},
    operator_entry{"DepthToSpace", import_depth_to_space},
    operator_entry{"Pad", import_pad},
    operator_entry{"ReverseSequence", import_reverse_sequence},
    operator_entry{"Slice", import_slice},
    operator_entry{"SpaceToDepth", import_space_to_depth},
    operator_entry{"Split", import_split},
    operator_entry{"Tile", import_tile},
    operator_entry{"Trilu", import_triangle},
};

}  // namespace

std::span<const operator_entry> movement_operators() {
  return movement_entries;
}

}  // namespace sluice::models
