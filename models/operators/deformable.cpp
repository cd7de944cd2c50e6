// SPDX-License-Identifier: Apache-2.0
// Convolutions whose filters read the image at positions that another tensor moves.
#include "models/join.hpp"
#include "models/operator_table.hpp"
#include "models/window.hpp"

#include <sluice/operations/binary.hpp>
#include <sluice/operations/blas.hpp>
#include <sluice/operations/concatenate.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/grid_sample.hpp>
#include <sluice/operations/movement.hpp>

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

namespace sluice::models {

namespace {

/// The operands of a node, and the sizes that they agree on.
struct deformable {
  value x;
  value filters;
  window moves{};
  std::int64_t taps = 0;     ///< elements of a filter in one channel
  std::int64_t rows = 0;     ///< of the result
  std::int64_t columns = 0;  ///< of the result
  std::int64_t groups = 1;   ///< of channels that share their offsets
  [[nodiscard]] std::int64_t places() const { return rows * columns; }
};

/// The numbers offset + i * factor for the indices i of a dimension.
value multiples(const node& n, std::int64_t count, std::int64_t factor, std::int64_t offset) {
  const auto index = n.add(range{.limit = count, .type = element_type::f64});
  return n.add(affine{
      .x = index, .factor = static_cast<double>(factor), .offset = static_cast<double>(offset)});
}
/// Where the filters read the image along a dimension, without offsets: for each tap and each row
/// or column of the result, as (1, taps, rows, 1) or (1, taps, 1, columns).
value positions_along(const node& n, const deformable& d, std::size_t dimension) {
  const auto& moves = d.moves;
  const auto& kernel = moves.kernel;
  const bool is_row = dimension == 0;
  const auto steps = multiples(n, kernel[dimension], moves.dilations[dimension], 0)
                         .reshape(is_row ? extents{kernel[0], 1} : extents{1, kernel[1]})
                         .broadcast_to(kernel)
                         .reshape({1, d.taps, 1, 1});
  const auto starts =
      multiples(n, is_row ? d.rows : d.columns, moves.strides[dimension], -moves.before[dimension])
          .reshape(is_row ? extents{1, 1, -1, 1} : extents{1, 1, 1, -1});
  return n.cast_to(n.add(add(steps, starts)), d.x.type());
}

/// What the filters read of the channels of a group, as (N, C, taps, places).
value read_group(const node& n, const deformable& d, std::int64_t group) {
  const auto batch = d.x.extent(0);
  const auto offsets =
      n.input(2).reshape({batch, d.groups, d.taps, 2, d.rows, d.columns}).select(1, group);
  std::vector<operand> coordinates;
  for (const std::size_t dimension : {1U, 0U}) {  // x comes first.
    const auto position = n.add(add(positions_along(n, d, dimension),
                                    offsets.select(2, static_cast<std::int64_t>(dimension))));
    const auto extent = static_cast<double>(d.x.extent(2 + dimension));
    coordinates.emplace_back(
        n.add(affine{.x = position, .factor = 2 / extent, .offset = 1 / extent - 1})
            .reshape({batch, d.taps, d.places()}));
  }
  const auto channels = d.x.extent(1) / d.groups;
  const auto samples =
      n.add(grid_sample{.x = d.x.slice(1, group * channels, (group + 1) * channels),
                        .grid = n.add(stack{.x = std::move(coordinates), .axis = -1})});
  if (!n.has_input(4)) return samples;
  const auto mask = n.input(4).reshape({batch, d.groups, 1, d.taps, d.places()}).select(1, group);
  return n.add(multiply(samples, mask));
}

deformable read_deformable(const node& n) {
  deformable d{.x = n.input(0), .filters = n.input(1)};
  if (d.x.rank() != 4 || d.filters.rank() != 4 || n.input(2).rank() != 4) {
    throw n.unsupported("X", "has not four dimensions");
  }
  const std::vector<std::int64_t> kernel{d.filters.extent(2), d.filters.extent(3)};
  if (n.attribute("kernel_shape", kernel) != kernel) {
    throw n.refusal("kernel_shape", "is not that of the filters");
  }
  d.moves = read_window(n, d.x, extents(kernel));
  d.taps = d.filters.extent(2) * d.filters.extent(3);
  d.rows = n.input(2).extent(2);
  d.columns = n.input(2).extent(3);
  constexpr std::int64_t largest = std::numeric_limits<std::int32_t>::max();
  if (d.rows > largest || d.columns > largest) {
    throw n.refusal("offset", "has an extent that does not fit in 32 bits");
  }
  d.groups = n.attribute("offset_group", std::int64_t{1});
  if (d.groups < 1 || d.x.extent(1) % d.groups != 0) {
    throw n.refusal("offset_group", "does not divide the channels");
  }
  return d;
}

results import_deformable(const node& n) {
  const auto d = read_deformable(n);
  std::vector<value> parts;
  for (std::int64_t group = 0; group < d.groups; ++group) {
    parts.push_back(read_group(n, d, group));
  }
  const auto read = concatenate_values(n, std::move(parts), 1);
  const auto groups = n.attribute("group", std::int64_t{1});
  const auto batch = d.x.extent(0);
  const auto count = d.filters.extent(0);
  if (groups < 1 || count % groups != 0 || d.x.extent(1) % groups != 0) {
    throw n.refusal("group", "does not divide the channels");
  }
  const auto length = d.x.extent(1) / groups * d.taps;
  const auto y = n.add(gemm{.a = d.filters.reshape({groups, count / groups, length}),
                            .b = read.reshape({batch, groups, length, d.places()})})
                     .reshape({batch, count, d.rows, d.columns});
  if (!n.has_input(3)) return y;
  return n.add(add(y, n.input(3).reshape({-1, 1, 1})));
}

constexpr std::array deformable_entries{
    operator_entry{"DeformConv", import_deformable, 19},
};

}  // namespace

std::span<const operator_entry> deformable_operators() {
  return deformable_entries;
}

}  // namespace sluice::models
