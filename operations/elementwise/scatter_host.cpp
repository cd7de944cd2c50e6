// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/host_loop.hpp"
#include "operations/elementwise/indices_host.hpp"
#include "operations/elementwise/scatter_functions.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace sluice::host {
namespace {

using namespace operations;

/// Copies x to y, a line at a time.
int copy_lines(const map_layout<2>& layout, int size, const scatter_addresses& addresses) {
  constexpr map_cost cost{.nanoseconds = 0.5};
  return visiting::with_bits(size, [&](auto bits) {
    using element = decltype(bits);
    for_each_part(layout, cost, [&](const map_layout<2>& part, const map_position<2>& origin) {
      const int last = part.rank - 1;
      const auto count = part.shape[last];
      const auto y_stride = part.strides[0][last];
      const auto x_stride = part.strides[1][last];
      for_each_line(part, origin, [&](const map_position<2>& line) {
        auto* const y = static_cast<element*>(addresses.y) + line.offsets[0];
        const auto* const x = static_cast<const element*>(addresses.x) + line.offsets[1];
        if (y_stride == 1 && x_stride == 1) {
          std::memcpy(y, x, static_cast<std::size_t>(count) * sizeof(element));
        } else {
          for (std::int64_t i = 0; i < count; ++i) y[i * y_stride] = x[i * x_stride];
        }
      });
    });
    return 0;
  });
}

/// A `combine_body` for single elements, and one loop for lines whose elements are stored in the
/// type in which they are computed.
template <class T>
struct combine_lines_body {
  combine_body<T> each;

  void operator()(std::int64_t place, std::int64_t update) const noexcept { each(place, update); }
  [[nodiscard]] bool takes_lines() const noexcept {
    return bytes_of(each.type) == static_cast<int>(sizeof(T));
  }
  void combine_line(std::int64_t place, std::int64_t update, std::int64_t count) const noexcept {
    auto* const y = static_cast<T*>(each.y) + place;
    const auto* const updates = static_cast<const T*>(each.updates) + update;
    const auto run = [&](auto combine) {
      for (std::int64_t i = 0; i < count; ++i) y[i] = combined(combine(), y[i], updates[i]);
    };
    switch (each.combine) {
      case scatter_combine::add:
        return run(std::integral_constant<scatter_combine, scatter_combine::add>());
      case scatter_combine::multiply:
        return run(std::integral_constant<scatter_combine, scatter_combine::multiply>());
      case scatter_combine::minimum:
        return run(std::integral_constant<scatter_combine, scatter_combine::minimum>());
      case scatter_combine::maximum:
        return run(std::integral_constant<scatter_combine, scatter_combine::maximum>());
      case scatter_combine::set:
        break;
    }
  }
};

/// Makes all updates with `body`, in row-major order.
template <class Body>
int update_lines(const scatter_work& work, const scatter_addresses& addresses, const Body& body) {
  const auto& layout = work.updates;
  const int last = layout.rank - 1;
  const auto count = layout.shape[last];
  const auto y_stride = layout.strides[0][last];
  const auto update_stride = layout.strides[1][last];
  const auto index_stride = layout.strides[2][last];
  for_each_line(layout, {}, [&](const map_position<3>& line) {
    if (index_stride != 0) {
      return for_each_place(work.indexed, addresses.indices, line.offsets[2], index_stride, count,
                            work.errors, [&](std::int64_t i, std::int64_t place) {
                              body(line.offsets[0] + i * y_stride + place,
                                   line.offsets[1] + i * update_stride);
                            });
    }
    const auto place =
        line.offsets[0] + work.indexed.place(addresses.indices, line.offsets[2], work.errors);
    if constexpr (requires { body.takes_lines(); }) {
      if (y_stride == 1 && update_stride == 1 && body.takes_lines()) {
        return body.combine_line(place, line.offsets[1], count);
      }
    }
    for (std::int64_t i = 0; i < count; ++i) {
      body(place + i * y_stride, line.offsets[1] + i * update_stride);
    }
  });
  return 0;
}

}  // namespace

void compute_scatter(scatter_work work, const scatter_addresses& addresses) {
  if (addresses.x != addresses.y) {
    const int size = widen_copy(work, addresses);
    (void)copy_lines(work.copy, size, addresses);
  }
  if (work.updates.count == 0) return;
  const auto type = work.updates.types[0];
  if (work.combine == scatter_combine::set) {
    const int size = widen_updates(work, addresses);
    (void)visiting::with_bits(size, [&](auto bits) {
      return update_lines(work, addresses,
                          set_body<decltype(bits)>{addresses.y, addresses.updates});
    });
  } else {
    (void)visiting::with_compute_type(type, [&](auto number) {
      return update_lines(work, addresses,
                          combine_lines_body<decltype(number)>{
                              {addresses.y, addresses.updates, type, work.combine}});
    });
  }
}

}  // namespace sluice::host
