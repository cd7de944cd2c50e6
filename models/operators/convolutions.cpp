// SPDX-License-Identifier: Apache-2.0
#include "models/operator_table.hpp"
#include "models/window.hpp"

#include <sluice/operations/dnn.hpp>
#include <sluice/operations/movement.hpp>

#include <algorithm>
#include <array>

namespace sluice::models {

namespace {

/// A tensor with one spatial dimension as an image of the height 1.
value as_image(const value& x) {
  return x.rank() == 3 ? x.unsqueeze(2) : x;
}

results import_conv(const node& n) {
  const auto& x = n.input(0);
  const auto& filters = n.input(1);
  if (filters.rank() < 2) throw n.refusal("W", "has less than two dimensions");
  const auto filter = filters.shape();
  const std::vector<std::int64_t> kernel(filter.begin() + 2, filter.end());
  const auto w = read_window(n, x, extents(n.attribute("kernel_shape", kernel)));
  if (kernel.empty() || kernel.size() > 2) {
    throw n.unsupported("X", "has " + std::to_string(kernel.size()) + " spatial dimensions");
  }
  const bool flat = kernel.size() == 1;
  const auto height = [&](const extents& numbers, std::int64_t missing) {
    return flat ? missing : numbers[0];
  };
  const auto width = [&](const extents& numbers) {
    return numbers[flat ? 0 : 1];
  };
  auto image = as_image(x);
  conv2d_geometry geometry{
      .padding = {.h = height(w.before, 0), .w = width(w.before)},
      .stride = {.h = height(w.strides, 1), .w = width(w.strides)},
      .dilation = {.h = height(w.dilations, 1), .w = width(w.dilations)},
      .groups = n.attribute("group", std::int64_t{1}),
  };
  if (w.before != w.after) {  // The convolution itself pads both ends alike.
    image = n.add(pad{.x = image,
                      .before = {0, 0, height(w.before, 0), width(w.before)},
                      .after = {0, 0, height(w.after, 0), width(w.after)}});
    geometry.padding = {};
  }
  auto y = n.add(conv2d{
      .x = image, .w = as_image(filters), .bias = n.optional_input(2), .geometry = geometry});
  if (!flat) return y;
  const auto shape = y.shape();
  return y.reshape({shape[0], shape[1], shape[3]});
}

constexpr std::array entries{
    operator_entry{"Conv", import_conv},
};

}  // namespace

std::span<const operator_entry> convolution_operators() {
  return entries;
}

}  // namespace sluice::models
