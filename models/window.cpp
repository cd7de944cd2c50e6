// SPDX-License-Identifier: Apache-2.0
#include "models/window.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace sluice::models {

namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int32_t>::max();

void require_range(const node& n, std::string_view name, std::int64_t number) {
  if (number < -largest || number > largest) {
    throw n.refusal(name, std::to_string(number) + " does not fit in 32 bits");
  }
}

extents one_for_each(const node& n, std::string_view name, std::size_t count,
                     std::int64_t missing) {
  return window_numbers(n, name, extents(std::vector<std::int64_t>(count, missing)));
}

}  // namespace

extents window_numbers(const node& n, std::string_view name, const extents& missing) {
  const auto numbers = n.attribute(name, std::vector<std::int64_t>(missing.begin(), missing.end()));
  if (numbers.size() != missing.size()) {
    throw n.refusal(name, "has " + std::to_string(numbers.size()) + " numbers instead of " +
                              std::to_string(missing.size()));
  }
  for (const auto number : numbers) require_range(n, name, number);
  return extents(numbers);
}

window read_window(const node& n, const value& x, const extents& kernel) {
  if (x.rank() != kernel.size() + 2) {
    throw n.refusal("kernel_shape", "has another number of dimensions than the input");
  }
  for (const auto extent : kernel) require_range(n, "kernel_shape", extent);
  for (const auto extent : x.shape()) require_range(n, "X", extent);
  const auto count = kernel.size();
  window result{.kernel = kernel,
                .strides = one_for_each(n, "strides", count, 1),
                .dilations = one_for_each(n, "dilations", count, 1)};
  const auto automatic = n.attribute("auto_pad", "NOTSET");
  const auto pads = one_for_each(n, "pads", 2 * count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    result.before.push_back(pads[i]);
    result.after.push_back(pads[count + i]);
    if (automatic == "NOTSET" || automatic.empty()) continue;
    result.before[i] = result.after[i] = 0;
    if (automatic == "VALID") continue;
    if (automatic != "SAME_UPPER" && automatic != "SAME_LOWER") {
      throw n.refusal("auto_pad", "is '" + automatic + "'");
    }
    // As many windows as strides, and an odd element at the named end.
    const auto extent = x.extent(i + 2);
    const auto stride = std::max(result.strides[i], std::int64_t{1});
    const auto windows = (extent + stride - 1) / stride;
    const auto reach = result.dilations[i] * (kernel[i] - 1) + 1;
    const auto padding = std::max((windows - 1) * stride + reach - extent, std::int64_t{0});
    result.before[i] = (automatic == "SAME_LOWER" ? padding + 1 : padding) / 2;
    result.after[i] = padding - result.before[i];
  }
  return result;
}

}  // namespace sluice::models
