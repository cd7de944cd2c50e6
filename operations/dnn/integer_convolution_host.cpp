// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/integer_convolution_functions.hpp"
#include "runtime/seam.hpp"

#include <algorithm>
#include <cstdint>

namespace sluice::host {
namespace {

using operations::element_axis;
using operations::integer_addresses;
using operations::integer_sums;
using operations::storage;

/// The outputs along one dimension for which a tap meets X, and where the first one meets it.
struct tap_outputs {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t x = 0;
};
tap_outputs outputs_of(const element_axis& axis, std::int64_t tap) noexcept {
  const auto offset = tap * axis.dilation - axis.before;
  // Of an only output, the stride is 0.
  if (axis.stride == 0) return {0, offset >= 0 && offset < axis.x ? 1 : 0, offset};
  const auto first = offset >= 0 ? 0 : (-offset - 1) / axis.stride + 1;
  const auto last = offset >= axis.x ? 0 : (axis.x - offset - 1) / axis.stride + 1;
  if (first >= std::min(last, axis.y)) return {};
  return {first, std::min(last, axis.y) - first, first * axis.stride + offset};
}

/// y[i · y_step] += factor · (x[i · x_step] - zero) for i in [0, count), which wraps.
template <class X>
void add_row(std::int64_t count, std::int32_t factor, const X* x, std::int64_t x_step,
             std::int32_t zero, std::uint32_t* y, std::int64_t y_step) noexcept {
  const auto product = [&](X value) {
    return static_cast<std::uint32_t>(factor * (static_cast<std::int32_t>(value) - zero));
  };
  if (x_step == 1 && y_step == 1) {
    for (std::int64_t i = 0; i < count; ++i) y[i] += product(x[i]);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) y[i * y_step] += product(x[i * x_step]);
}

/// The sums of one channel of an image of Y.
template <class X>
class plane_sum {
 public:
  plane_sum(const integer_sums& call, const integer_addresses& addresses, std::int64_t image,
            std::int64_t channel) noexcept
      : call_(call),
        w_(addresses.w),
        zeros_(zeros_of(call, addresses, channel)),
        y_(static_cast<std::uint32_t*>(addresses.y) + image * call.sums.y.image +
           channel * call.sums.y.channel) {
    const auto& sums = call.sums;
    const auto group = channel / sums.group_outputs;
    if (sums.group_inputs == 0) return;  // x has no elements, and may have no address
    x_ = static_cast<const X*>(addresses.x) + image * sums.x.image +
         group * sums.group_inputs * sums.x.channel;
    first_w_ = group * sums.w_group + channel % sums.group_outputs * sums.y_filter;
  }

  void run() const noexcept {
    const auto& a = call_.sums.axes;
    for (std::int64_t depth = 0; depth < a[0].y; ++depth) {
      for (std::int64_t row = 0; row < a[1].y; ++row) {
        auto* const line = y_ + depth * a[0].y_stride + row * a[1].y_stride;
        for (std::int64_t i = 0; i < a[2].y; ++i) line[i * a[2].y_stride] = 0;
      }
    }
    for (std::int64_t q = 0; q < a[0].taps; ++q) {
      const auto slices = outputs_of(a[0], q);
      for (std::int64_t r = 0; r < a[1].taps; ++r) {
        const auto rows = outputs_of(a[1], r);
        for (std::int64_t s = 0; s < a[2].taps; ++s) {
          add_tap(slices, rows, outputs_of(a[2], s),
                  q * a[0].w_stride + r * a[1].w_stride + s * a[2].w_stride);
        }
      }
    }
  }

 private:
  void add_tap(const tap_outputs& slices, const tap_outputs& rows, const tap_outputs& columns,
               std::int64_t tap) const noexcept {
    const auto& sums = call_.sums;
    if (sums.group_inputs == 0) return;
    const auto& a = sums.axes;
    for (std::int64_t o = 0; o < slices.count; ++o) {
      for (std::int64_t p = 0; p < rows.count; ++p) {
        const auto* const x = x_ + (slices.x + o * a[0].stride) * a[0].x_stride +
                              (rows.x + p * a[1].stride) * a[1].x_stride +
                              columns.x * a[2].x_stride;
        auto* const y = y_ + (slices.first + o) * a[0].y_stride + (rows.first + p) * a[1].y_stride +
                        columns.first * a[2].y_stride;
        for (std::int64_t c = 0; c < sums.group_inputs; ++c) {
          const auto w =
              operations::load<std::int32_t>(call_.w_type, w_, first_w_ + c * sums.x_filter + tap);
          add_row(columns.count, w - zeros_.w, x + c * sums.x.channel, a[2].stride * a[2].x_stride,
                  zeros_.x, y, a[2].y_stride);
        }
      }
    }
  }

  const integer_sums& call_;
  const void* w_;
  operations::integer_zeros zeros_;
  std::uint32_t* y_;
  const X* x_ = nullptr;
  std::int64_t first_w_ = 0;
};

template <class X>
void run(const integer_sums& call, const integer_addresses& addresses) {
  const auto& sums = call.sums;
  constexpr double nanoseconds_of_product = 0.2;
  double products = static_cast<double>(sums.group_inputs);
  for (const auto& axis : sums.axes) {
    products *= static_cast<double>(axis.y) * static_cast<double>(axis.taps);
  }
  const work_chunks chunks(sums.images * sums.y_channels, nanoseconds_of_product * products + 1);
  parallel_for(chunks.count(), [&](std::int64_t chunk) {
    const auto [begin, end] = chunks[chunk];
    for (auto i = begin; i < end; ++i) {
      plane_sum<X>(call, addresses, i / sums.y_channels, i % sums.y_channels).run();
    }
  });
}

}  // namespace

void compute_integer_convolution(const integer_sums& call, const integer_addresses& addresses) {
  call.sums.type == storage::u8 ? run<std::uint8_t>(call, addresses)
                                : run<std::int8_t>(call, addresses);
}

}  // namespace sluice::host
