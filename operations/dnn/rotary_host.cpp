// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/rotary_functions.hpp"
#include "operations/elementwise/f32_loops.hpp"
#include "operations/elementwise/host_loop.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <vector>

namespace sluice::host {
namespace {

using namespace operations;

/// Rotates rows one after the other, in `T`. Rows that have gaps or are of another type are
/// converted to rows of `T`.
template <class T>
class row_rotation {
 public:
  row_rotation(const rotary_call& call, const rotary_addresses& addresses)
      : call_(call), addresses_(addresses) {}

  void compute(const map_position<4>& row) {
    const auto count = 2 * call_.pairs + call_.copied;
    const auto angles = angles_of(call_, addresses_.positions, row);
    const T* const x = numbers_at(addresses_.x, row.offsets[1], call_.strides[1], count, x_);
    results_.resize(static_cast<std::size_t>(count));
    T* const y = results_.data();
    if (angles.exist) {
      const T* const cos =
          numbers_at(addresses_.cos, angles.cos, call_.strides[2], call_.pairs, cos_);
      const T* const sin =
          numbers_at(addresses_.sin, angles.sin, call_.strides[3], call_.pairs, sin_);
      call_.interleaved ? rotate<true>(x, cos, sin, y) : rotate<false>(x, cos, sin, y);
    } else {
      std::fill_n(y, 2 * call_.pairs, std::numeric_limits<T>::quiet_NaN());
    }
    std::copy_n(x + 2 * call_.pairs, call_.copied, y + 2 * call_.pairs);
    store_row(y, row.offsets[0], count);
  }

 private:
  static constexpr storage direct = std::is_same_v<T, float> ? storage::f32 : storage::f64;
  /// Numbers that were converted, and where they lie.
  struct converted_numbers {
    std::int64_t offset = -1;
    std::vector<T> values;
  };

  template <bool Interleaved>
  void rotate(const T* x, const T* cos, const T* sin, T* y) const {
    const auto pairs = call_.pairs;
    for (std::int64_t i = 0; i < pairs; ++i) {
      const auto first = Interleaved ? 2 * i : i;
      const auto second = Interleaved ? 2 * i + 1 : i + pairs;
      const T a = x[first];
      const T b = x[second];
      y[first] = a * cos[i] - b * sin[i];
      y[second] = a * sin[i] + b * cos[i];
    }
  }
  [[nodiscard]] std::int64_t bytes_of_element() const {
    return call_.rows.types[0] == storage::f64 ? 8 : call_.rows.types[0] == storage::f32 ? 4 : 2;
  }
  /// The numbers from `offset` on. The angles of a row are often those of the row before.
  const T* numbers_at(const void* memory, std::int64_t offset, std::int64_t stride,
                      std::int64_t count, converted_numbers& converted) const {
    const auto type = call_.rows.types[0];
    if (stride == 1 && type == direct) return static_cast<const T*>(memory) + offset;
    if (&converted != &x_ && converted.offset == offset) return converted.values.data();
    converted.offset = offset;
    converted.values.resize(static_cast<std::size_t>(count));
    T* target = converted.values.data();
    if constexpr (std::is_same_v<T, float>) {
      if (stride == 1) {
        load_f32(type, static_cast<const std::byte*>(memory) + offset * bytes_of_element(), count,
                 target);
        return target;
      }
    }
    for (std::int64_t i = 0; i < count; ++i) target[i] = load<T>(type, memory, offset + i * stride);
    return target;
  }
  void store_row(const T* row, std::int64_t offset, std::int64_t count) const {
    const auto type = call_.rows.types[0];
    if constexpr (std::is_same_v<T, float>) {
      if (call_.strides[0] == 1) {
        return store_f32(type, row, count,
                         static_cast<std::byte*>(addresses_.y) + offset * bytes_of_element());
      }
    }
    for (std::int64_t i = 0; i < count; ++i) {
      store<overflow::saturates>(type, addresses_.y, offset + i * call_.strides[0], row[i]);
    }
  }

  const rotary_call& call_;
  const rotary_addresses& addresses_;
  converted_numbers x_;
  converted_numbers cos_;
  converted_numbers sin_;
  std::vector<T> results_;
};

template <class T>
void compute_rotations(const rotary_call& call, const rotary_addresses& addresses) {
  const auto elements = static_cast<double>(2 * call.pairs + call.copied);
  for_each_part(call.rows, {.nanoseconds = 0.6 * elements + 20, .least = 1},
                [&](const map_layout<4>& part, const map_position<4>& origin) {
                  row_rotation<T> rows(call, addresses);
                  for_each_position(part, origin,
                                    [&](const map_position<4>& row) { rows.compute(row); });
                });
}

}  // namespace

void compute_rotary(const rotary_call& call, const rotary_addresses& addresses) {
  if (call.rows.types[0] == storage::f64) return compute_rotations<double>(call, addresses);
  compute_rotations<float>(call, addresses);
}

}  // namespace sluice::host
