// SPDX-License-Identifier: Apache-2.0
// Shapes as values, and views of other shapes.
#include "models/operator_table.hpp"

#include <sluice/operations/elementwise.hpp>

#include <algorithm>
#include <array>
#include <set>

namespace sluice::models {

namespace {

/// The dimensions that axes name, in rising order.
std::set<std::size_t> dimensions_of(const node& n, const std::vector<std::int64_t>& axes,
                                    std::size_t rank) {
  std::set<std::size_t> dimensions;
  for (const auto axis : axes) {
    if (!dimensions.insert(n.dimension(axis, rank, "axes")).second) {
      throw n.refusal("axes", "name a dimension twice");
    }
  }
  return dimensions;
}

results import_shape(const node& n) {
  const auto shape = n.input(0).shape();
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto bound = [&](std::int64_t number) {
    return std::clamp(number < 0 ? number + rank : number, std::int64_t{0}, rank);
  };
  const auto first = bound(n.attribute("start", std::int64_t{0}));
  const auto last = std::max(first, bound(n.attribute("end", rank)));
  return n.constant(std::vector<std::int64_t>(shape.begin() + first, shape.begin() + last));
}
results import_size(const node& n) {
  return n.constant(host_tensor(std::vector{static_cast<std::int64_t>(n.input(0).size())}, {}));
}
results import_reshape(const node& n) {
  const auto& x = n.input(0);
  extents shape(n.opset() < 5 ? n.attribute("shape", std::vector<std::int64_t>{})
                              : n.integers(1, "shape"));
  const bool zero_is_copied = n.attribute("allowzero", std::int64_t{0}) == 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 0 || !zero_is_copied) continue;
    if (i >= x.rank()) throw n.refusal("shape", "copies a dimension that the data does not have");
    shape[i] = x.extent(i);
  }
  // Without elements, -1 is left to the other extents.
  if (x.size() == 0) {
    std::replace(shape.data(), shape.data() + shape.size(), std::int64_t{-1}, std::int64_t{0});
  }
  return x.reshape(shape);
}
results import_flatten(const node& n) {
  const auto& x = n.input(0);
  const auto rank = static_cast<std::int64_t>(x.rank());
  const auto axis = n.attribute("axis", std::int64_t{1});
  if (axis < -rank || axis > rank) throw n.refusal("axis", "is out of range");
  const auto first = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  std::array<std::int64_t, 2> shape{1, 1};
  for (std::size_t i = 0; i < x.rank(); ++i) shape[i < first ? 0 : 1] *= x.extent(i);
  return x.reshape(extents(std::span<const std::int64_t>(shape)));
}
results import_squeeze(const node& n) {
  const auto& x = n.input(0);
  const auto axes = n.integers_of(1, "axes");
  const auto squeezed = dimensions_of(n, axes.value_or(std::vector<std::int64_t>{}), x.rank());
  extents shape;
  auto y = x;
  for (auto i = x.rank(); i-- > 0;) {
    const bool named = squeezed.contains(i);
    if (named && x.extent(i) != 1) throw n.refusal("axes", "name an extent that is not 1");
    const bool is_left = !(axes ? named : x.extent(i) == 1);
    if (!is_left && !x.known()) y = y.select(i, 0);
  }
  if (!x.known()) return y;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (!(axes ? squeezed.contains(i) : x.extent(i) == 1)) shape.push_back(x.extent(i));
  }
  return x.reshape(shape);
}
results import_unsqueeze(const node& n) {
  auto y = n.input(0);
  const auto axes = n.integers_of(1, "axes");
  if (!axes) throw n.refusal("axes", "are not given");
  for (const auto axis : dimensions_of(n, *axes, y.rank() + axes->size())) y = y.unsqueeze(axis);
  return y;
}
results import_transpose(const node& n) {
  std::vector<std::int64_t> reversed;
  for (auto i = n.input(0).rank(); i-- > 0;) reversed.push_back(static_cast<std::int64_t>(i));
  return n.input(0).permute(extents(n.attribute("perm", reversed)));
}
/// Broadcasts both ways: an extent of 1 in the shape leaves that of the input.
results import_expand(const node& n) {
  auto x = n.input(0);
  extents shape(n.integers(1, "shape"));
  while (x.rank() < shape.size()) x = x.unsqueeze(0);
  const auto missing = x.rank() - shape.size();
  extents all = x.shape();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1) all[missing + i] = shape[i];
  }
  return x.broadcast_to(all);
}

constexpr std::array shape_entries{
    operator_entry{"Expand", import_expand},       operator_entry{"Flatten", import_flatten},
    operator_entry{"Reshape", import_reshape},     operator_entry{"Shape", import_shape},
    operator_entry{"Size", import_size},           operator_entry{"Squeeze", import_squeeze},
    operator_entry{"Transpose", import_transpose}, operator_entry{"Unsqueeze", import_unsqueeze},
};

}  // namespace

std::span<const operator_entry> shape_operators() {
  return shape_entries;
}

}  // namespace sluice::models
