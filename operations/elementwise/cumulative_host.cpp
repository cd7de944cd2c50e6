// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/cumulative_functions.hpp"
#include "operations/elementwise/host_loop.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace sluice::host {
namespace {

using namespace operations;

/// Computes one row.
template <class Accumulation>
void compute_row(const cumulative_call& call, const Accumulation& accumulation,
                 const typename Accumulation::element* x, typename Accumulation::element* y) {
  auto total = accumulation.identity();
  const auto run = [&](const auto& combine) {
    for (std::int64_t i = 0; i < call.length; ++i) {
      const auto next = combine(total, Accumulation::value_of(x[i * call.strides[1]]));
      y[i * call.strides[0]] = Accumulation::element_of(call.is_exclusive ? total : next);
      total = next;
    }
  };
  using value = typename Accumulation::value;
  if (call.is_product) {
    run([](value a, value b) { return product(a, b); });
  } else {
    run([](value a, value b) { return sum(a, b); });
  }
}

/// Computes rows whose neighbouring elements belong to different rows, `count` of them at once.
template <class Accumulation>
void compute_columns(const cumulative_call& call, const Accumulation& accumulation,
                     const typename Accumulation::element* x, std::int64_t x_stride,
                     typename Accumulation::element* y, std::int64_t y_stride,
                     typename Accumulation::value* totals, std::int64_t count) {
  std::fill_n(totals, count, accumulation.identity());
  for (std::int64_t i = 0; i < call.length; ++i) {
    const auto* const source = x + i * call.strides[1];
    auto* const target = y + i * call.strides[0];
    for (std::int64_t k = 0; k < count; ++k) {
      const auto next =
          accumulation.combine(totals[k], Accumulation::value_of(source[k * x_stride]));
      target[k * y_stride] = Accumulation::element_of(call.is_exclusive ? totals[k] : next);
      totals[k] = next;
    }
  }
}

struct cumulative_runner {
  const cumulative_call& call;
  const void* x;
  void* y;

  template <class Accumulation>
  int operator()(const Accumulation& accumulation) const {
    using element = typename Accumulation::element;
    constexpr double nanoseconds = 1.5;
    constexpr std::int64_t block = 1024;
    const auto* const source = static_cast<const element*>(x) + call.first[1];
    auto* const target = static_cast<element*>(y) + call.first[0];
    const auto last = call.rows.rank - 1;
    const bool has_columns =
        call.rows.shape[last] > 1 && call.rows.strides[1][last] < std::abs(call.strides[1]);
    const map_cost cost{.nanoseconds = nanoseconds * static_cast<double>(call.length),
                        .least = has_columns ? block : 1};
    for_each_part(call.rows, cost, [&](const map_layout<2>& part, const map_position<2>& origin) {
      if (!has_columns) {
        return for_each_position(part, origin, [&](const map_position<2>& row) {
          compute_row(call, accumulation, source + row.offsets[1], target + row.offsets[0]);
        });
      }
      std::array<typename Accumulation::value, block> totals;
      const auto x_stride = part.strides[1][last];
      const auto y_stride = part.strides[0][last];
      for_each_line(part, origin, [&](const map_position<2>& line) {
        for (std::int64_t i = 0; i < part.shape[last]; i += block) {
          compute_columns(call, accumulation, source + line.offsets[1] + i * x_stride, x_stride,
                          target + line.offsets[0] + i * y_stride, y_stride, totals.data(),
                          std::min(block, part.shape[last] - i));
        }
      });
    });
    return 0;
  }
};

}  // namespace

void compute_cumulative(const cumulative_call& call, const void* x, void* y) {
  (void)visit(call, cumulative_runner{call, x, y});
}

}  // namespace sluice::host
