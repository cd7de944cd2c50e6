// SPDX-License-Identifier: Apache-2.0
#include "models/operator_table.hpp"
#include "models/window.hpp"

#include <sluice/operations/binary.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/max_pool_with_indices.hpp>
#include <sluice/operations/movement.hpp>
#include <sluice/operations/pool.hpp>
#include <sluice/operations/rearrangement.hpp>
#include <sluice/operations/reduce.hpp>
#include <sluice/operations/scatter.hpp>
#include <sluice/operations/transfer.hpp>

#include <array>
#include <numeric>

namespace sluice::models {

namespace {

window window_of(const node& n) {
  const extents kernel(n.attribute("kernel_shape", std::vector<std::int64_t>{}));
  return read_window(n, n.input(0), kernel);
}
pool pool_of(const node& n, pooling kind) {
  const auto w = window_of(n);
  return {.x = n.input(0),
          .kind = kind,
          .window = w.kernel,
          .strides = w.strides,
          .before = w.before,
          .after = w.after,
          .dilation = w.dilations,
          .ceil_mode = n.attribute("ceil_mode", std::int64_t{0}) != 0};
}

results import_average_pool(const node& n) {
  auto pool = pool_of(n, pooling::average);
  pool.count_padding = n.attribute("count_include_pad", std::int64_t{0}) != 0;
  return n.add(std::move(pool));
}
results import_lp_pool(const node& n) {
  auto pool = pool_of(n, pooling::lp);
  pool.p = n.attribute("p", std::int64_t{2});
  return n.add(std::move(pool));
}
/// Indices that count along columns instead of rows: those of planes of which the last two
/// dimensions are exchanged.
value column_major(const node& n, const value& indices, const value& x) {
  if (x.rank() != 4) throw n.unsupported("storage_order", "is 1 without two spatial dimensions");
  const auto number = [&](std::int64_t i) {
    return n.number(element_type::i64, static_cast<double>(i));
  };
  const auto height = x.extent(2);
  const auto width = x.extent(3);
  const auto row = n.add(remainder(n.add(divide(indices, number(width))), number(height)));
  const auto column = n.add(remainder(indices, number(width)));
  const auto within = n.add(add(n.add(multiply(row, number(width))), column));
  const auto plane = n.add(subtract(indices, within));
  return n.add(add(plane, n.add(add(n.add(multiply(column, number(height))), row))));
}
results import_max_pool(const node& n) {
  const auto pool = pool_of(n, pooling::maximum);
  if (!n.has_output(1)) return n.add(pool);
  auto all = n.add_all(max_pool_with_indices{.x = pool.x,
                                             .window = pool.window,
                                             .strides = pool.strides,
                                             .before = pool.before,
                                             .after = pool.after,
                                             .dilation = pool.dilation,
                                             .ceil_mode = pool.ceil_mode});
  if (n.attribute("storage_order", std::int64_t{0}) != 0) {
    all[1] = column_major(n, all[1], n.input(0));
  }
  return all;
}
/// Over all spatial dimensions.
value reduce_space(const node& n, const value& x, reduction kind) {
  if (x.rank() < 2) throw n.refusal("X", "has less than two dimensions");
  std::vector<std::int64_t> axes(x.rank() - 2);
  std::iota(axes.begin(), axes.end(), std::int64_t{2});
  return n.add(
      reduce{.x = x, .kind = kind, .axes = std::optional(extents(axes)), .keep_dims = true});
}
template <reduction Kind>
results import_global(const node& n) {
  return reduce_space(n, n.input(0), Kind);
}
results import_global_lp_pool(const node& n) {
  const auto p = n.attribute("p", std::int64_t{2});
  if (p == 1) return reduce_space(n, n.input(0), reduction::l1);
  if (p == 2) return reduce_space(n, n.input(0), reduction::l2);
  throw n.unsupported("p", "is neither 1 nor 2");
}
/// Writes each maximum to its index, and zeros elsewhere.
results import_max_unpool(const node& n) {
  const auto& x = n.input(0);
  const extents kernel(n.attribute("kernel_shape", std::vector<std::int64_t>{}));
  const auto w = read_window(n, x, kernel);
  extents shape = x.shape();
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    shape[i + 2] = (x.extent(i + 2) - 1) * w.strides[i] + kernel[i] - w.before[i] - w.after[i];
  }
  std::int64_t count = 1;
  for (const auto extent : shape) count *= extent;
  const auto zeros = n.add(fill{.value = 0, .shape = extents{count}, .type = x.type()});
  auto y = n.add(scatter_elements{
                     .x = zeros, .indices = n.input(1).reshape({-1}), .updates = x.reshape({-1})})
               .reshape(shape);
  if (!n.has_input(2)) return y;
  // Indices count in the shape without padding, which lies at the beginning of this one.
  const auto padded = n.integers(2, "output_shape");
  if (padded.size() != shape.size()) throw n.refusal("output_shape", "has another rank");
  pad behind{.x = y};
  for (std::size_t i = 0; i < padded.size(); ++i) {
    behind.before.push_back(0);
    behind.after.push_back(padded[i] - shape[i]);
  }
  return n.add(std::move(behind));
}
/// The sums along one spatial dimension after the other, of which the operation has two.
results import_col2im(const node& n) {
  auto x = n.input(0);
  const auto size = n.integers(1, "image_shape");
  const auto block = n.integers(2, "block_shape");
  const auto rank = size.size();
  const auto numbers = [&](const char* name, std::size_t count, std::int64_t missing) {
    auto read = n.attribute(name, std::vector<std::int64_t>(count, missing));
    if (read.size() != count) throw n.refusal(name, "has another number of elements");
    return read;
  };
  const auto strides = numbers("strides", rank, 1);
  const auto dilations = numbers("dilations", rank, 1);
  const auto pads = numbers("pads", 2 * rank, 0);
  if (block.size() != rank || rank == 0 || x.rank() != 3) {
    throw n.refusal("block_shape", "has not one number for each dimension of the images");
  }
  if (rank == 2) {
    return n.add(col2im{.x = x,
                        .size = extents(size),
                        .window = extents(block),
                        .strides = extents(strides),
                        .before = {pads[0], pads[1]},
                        .after = {pads[2], pads[3]},
                        .dilation = extents(dilations)});
  }
  // From (N, C · k1 … kd, L1 … Ld · inner) to (N, C · k1 … k(d-1), L1 … L(d-1) · Dd · inner).
  std::int64_t inner = 1;
  for (auto d = rank; d-- > 0;) {
    if (strides[d] < 1) throw n.refusal("strides", "has a number below 1");
    const auto reach = dilations[d] * (block[d] - 1) + 1;
    const auto windows = (size[d] + pads[d] + pads[rank + d] - reach) / strides[d] + 1;
    const auto images = x.extent(0);
    const auto rows = x.extent(1);
    const auto apart = x.reshape({images, rows, -1, windows, inner}).permute({0, 2, 4, 1, 3});
    const auto outer = apart.extent(1);
    const auto sums = n.add(col2im{.x = apart.reshape({images * outer * inner, rows, windows}),
                                   .size = {size[d], 1},
                                   .window = {block[d], 1},
                                   .strides = {strides[d], 1},
                                   .before = {pads[d], 0},
                                   .after = {pads[rank + d], 0},
                                   .dilation = {dilations[d], 1}});
    const auto channels = sums.extent(1);
    x = sums.reshape({images, outer, inner, channels, size[d]})
            .permute({0, 3, 1, 4, 2})
            .reshape({images, channels, outer * size[d] * inner});
    inner *= size[d];
  }
  extents shape{x.extent(0), x.extent(1)};
  for (const auto extent : size) shape.push_back(extent);
  return x.reshape(shape);
}

constexpr std::array pooling_entries{
    operator_entry{"AveragePool", import_average_pool},
    operator_entry{"Col2Im", import_col2im},
    operator_entry{"GlobalAveragePool", import_global<reduction::mean>},
    operator_entry{"GlobalLpPool", import_global_lp_pool},
    operator_entry{"GlobalMaxPool", import_global<reduction::max>},
    operator_entry{"LpPool", import_lp_pool},
    operator_entry{"MaxPool", import_max_pool},
    operator_entry{"MaxUnpool", import_max_unpool},
};

}  // namespace

std::span<const operator_entry> pooling_operators() {
  return pooling_entries;
}

}  // namespace sluice::models
