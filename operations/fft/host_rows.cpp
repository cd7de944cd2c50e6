// SPDX-License-Identifier: Apache-2.0
#include "operations/fft/host_rows.hpp"

#include "operations/fft/fft_tables.hpp"
#include "operations/fft/split_complex.hpp"
#include "operations/vector_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "operations/fft/host_rows.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "operations/fft/row_transform-inl.hpp"

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <memory>

HWY_BEFORE_NAMESPACE();
namespace sluice::operations::HWY_NAMESPACE {

/// Complex numbers at `z` as they lie in tensors.
template <class D>
HWY_INLINE complex_vector<D> load_pairs(D d, const hn::TFromD<D>* z) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(D()) > 1) {
    complex_vector<D> result;
    hn::LoadInterleaved2(d, z, result.re, result.im);
    return result;
  }
#endif
  return load(d, z, z + 1);
}
template <class D>
HWY_INLINE void store_pairs(D d, const complex_vector<D>& value, hn::TFromD<D>* z) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(D()) > 1) {
    hn::StoreInterleaved2(value.re, value.im, d, z);
    return;
  }
#endif
  store(d, value, z, z + 1);
}
template <class D>
HWY_INLINE complex_vector<D> reversed(D d, const complex_vector<D>& z) {
  if constexpr (hn::MaxLanes(D()) == 1) return z;
  return {hn::Reverse(d, z.re), hn::Reverse(d, z.im)};
}

/// Takes `count` complex numbers apart.
template <std::size_t lanes, class T>
HWY_INLINE std::size_t split_some(const T* z, std::size_t first, std::size_t count,
                                  split_complex<T> row) {
  const vectors<T, lanes> d;
  for (; first + lanes <= count; first += lanes) {
    store(d, load_pairs(d, z + 2 * first), row.re + first, row.im + first);
  }
  return first;
}
template <class T>
void split(const T* z, std::size_t count, split_complex<T> row) {
  (void)split_some<1>(z, split_some<HWY_LANES(T)>(z, 0, count, row), count, row);
}
/// Puts `count` complex numbers together, times `scale`.
template <std::size_t lanes, class T>
HWY_INLINE std::size_t join_some(split_complex<const T> row, std::size_t first, std::size_t count,
                                 T scale, T* z) {
  const vectors<T, lanes> d;
  const auto factor = hn::Set(d, scale);
  for (; first + lanes <= count; first += lanes) {
    const auto value = load(d, row.re + first, row.im + first);
    const decltype(value) scaled{hn::Mul(value.re, factor), hn::Mul(value.im, factor)};
    store_pairs(d, scaled, z + 2 * first);
  }
  return first;
}
template <class T>
void join(split_complex<const T> row, std::size_t count, T scale, T* z) {
  (void)join_some<1>(row, join_some<HWY_LANES(T)>(row, 0, count, scale, z), count, scale, z);
}

/// The step between the spectrum X of a real signal of even length and that of the complex signal
/// whose parts are its even and its odd elements, Z of half the length h. With their bins k and
/// h - k, e = z[k] + conj(z[h-k]) and t = root[k] · (z[k] - conj(z[h-k])), this is e + t and
/// conj(e - t) in both directions.
template <class T>
class real_step {
 public:
  /// @param half h; 0: there is no such step
  /// @param sign that of the exponent of the transform
  real_step(std::size_t half, int sign) : half_(half), roots_(half / 2 + 1) {
    if (half == 0) return;  // the length is odd
    const auto roots = roots_.get();
    for (std::size_t k = 0; k <= half / 2; ++k) {
      // -i exp(-πi k / h) or its conjugate.
      const auto root = root_of_unity<T>(sign, k, 2 * half);
      const auto direction = static_cast<T>(sign);
      roots.re[k] = -direction * root.imag();
      roots.im[k] = direction * root.real();
    }
  }
  [[nodiscard]] static std::size_t bytes(std::size_t half) noexcept {
    return split_buffer<T>::bytes(half / 2 + 1);
  }

  /// From Z to X times `scale`.
  void forward(split_complex<const T> z, T scale, T* x) const {
    x[0] = (z.re[0] + z.im[0]) * scale;
    x[1] = 0;
    x[2 * half_] = (z.re[0] - z.im[0]) * scale;
    x[2 * half_ + 1] = 0;
    for_each_block(writer{z, scale / 2, x});
  }
  /// From X to 2 Z.
  void inverse(const T* x, split_complex<T> z) const {
    z.re[0] = x[0] + x[2 * half_];
    z.im[0] = x[0] - x[2 * half_];
    for_each_block(reader{x, z});
  }

 private:
  struct writer {
    split_complex<const T> z;
    T scale;
    T* x;
    template <class D>
    HWY_INLINE complex_vector<D> get(D d, std::size_t k) const {
      return load(d, z.re + k, z.im + k);
    }
    template <class D>
    HWY_INLINE void put(D d, const complex_vector<D>& value, std::size_t k) const {
      const auto factor = hn::Set(d, scale);
      store_pairs(d, {hn::Mul(value.re, factor), hn::Mul(value.im, factor)}, x + 2 * k);
    }
  };
  struct reader {
    const T* x;
    split_complex<T> z;
    template <class D>
    HWY_INLINE complex_vector<D> get(D d, std::size_t k) const {
      return load_pairs(d, x + 2 * k);
    }
    template <class D>
    HWY_INLINE void put(D d, const complex_vector<D>& value, std::size_t k) const {
      store(d, value, z.re + k, z.im + k);
    }
  };

  /// Bins [1, h/2] and their mirror images.
  template <class Access>
  HWY_INLINE void for_each_block(const Access& access) const {
    constexpr std::size_t lanes = HWY_LANES(T);
    const std::size_t last = half_ / 2;
    if (last < lanes) {
      for (std::size_t k = 1; k <= last; ++k) block<1>(access, k);
      return;
    }
    for (std::size_t k = 1; k + lanes <= last; k += lanes) block<lanes>(access, k);
    block<lanes>(access, last + 1 - lanes);  // some bins a second time
  }
  template <std::size_t lanes, class Access>
  HWY_INLINE void block(const Access& access, std::size_t k) const {
    const vectors<T, lanes> d;
    const auto roots = roots_.get();
    const std::size_t mirror = half_ - k - (lanes - 1);
    const auto z = access.get(d, k);
    const auto m = reversed(d, access.get(d, mirror));
    const decltype(z) even{hn::Add(z.re, m.re), hn::Sub(z.im, m.im)};
    const decltype(z) odd{hn::Sub(z.re, m.re), hn::Add(z.im, m.im)};
    const auto rotation = product(load(d, roots.re + k, roots.im + k), odd);
    const auto other = difference(even, rotation);
    access.put(d, sum(even, rotation), k);
    access.put(d, reversed(d, {other.re, hn::Neg(other.im)}), mirror);
  }

  std::size_t half_;
  split_buffer<T> roots_;
};

/// The transforms of rows. Each row is brought into the form of split complex numbers, transformed
/// there and brought into the form of the result.
template <class T>
class typed_rows final : public host_rows {
 public:
  explicit typed_rows(const fft_row& row)
      : kind_(row.kind),
        length_(static_cast<std::size_t>(row.length)),
        points_(points(row)),
        transform_(make_row_transform<T>(points_)),
        step_(is_halved(row) ? points_ : 0, row.kind == fft_kind::r2c ? -1 : 1),
        distance_(2 * split_buffer<T>::part(points_)) {}

  [[nodiscard]] static std::size_t bytes(const fft_row& row) {
    return row_transform_bytes<T>(points(row)) +
           real_step<T>::bytes(is_halved(row) ? points(row) : 0);
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return scratch_memory::slack + scratch_memory::bytes<T>(split_numbers()) +
           transform_->scratch_bytes();
  }
  void run(const fft_rows_location& rows, std::int64_t count, double scale,
           void* scratch) const override {
    const bool real_input = kind_ == fft_kind::r2c;
    const bool real_output = kind_ == fft_kind::c2r;
    const bool inverse = kind_ == fft_kind::c2c_inverse || kind_ == fft_kind::c2r;
    const auto input_distance = rows.input_distance * (real_input ? 1 : 2);
    const auto output_distance = rows.output_distance * (real_output ? 1 : 2);
    const auto* x = static_cast<const T*>(rows.x);
    auto* y = static_cast<T*>(rows.y);
    scratch_memory memory(scratch);
    T* const split = memory.take<T>(split_numbers()).re;
    const split_complex<T> first{split, split + distance_ / 2};
    const auto block_rows = static_cast<std::int64_t>(transform_->rows());
    for (std::int64_t row = 0; row < count; row += block_rows) {
      const auto part = std::min(block_rows, count - row);
      for (std::int64_t i = 0; i < part; ++i, x += input_distance) begin(x, row_at(first, i));
      const auto source = inverse ? first.swapped() : first;
      auto result = transform_->run(source, distance_, static_cast<std::size_t>(part), memory);
      if (inverse) result = result.swapped();
      for (std::int64_t i = 0; i < part; ++i, y += output_distance) {
        finish(row_at(result, i), static_cast<T>(scale), y);
      }
    }
  }

 private:
  /// Whether the transform is by a complex one of half the length.
  [[nodiscard]] static bool is_halved(const fft_row& row) noexcept {
    return (row.kind == fft_kind::r2c || row.kind == fft_kind::c2r) && row.length % 2 == 0;
  }
  /// The length of the complex transform.
  [[nodiscard]] static std::size_t points(const fft_row& row) noexcept {
    return static_cast<std::size_t>(is_halved(row) ? row.length / 2 : row.length);
  }
  /// The numbers of the rows that are transformed at once.
  [[nodiscard]] std::size_t split_numbers() const noexcept {
    return distance_ / 2 * transform_->rows();
  }
  [[nodiscard]] split_complex<T> row_at(const split_complex<T>& first,
                                        std::int64_t row) const noexcept {
    const auto offset = static_cast<std::size_t>(row) * distance_;
    return {first.re + offset, first.im + offset};
  }

  HWY_INLINE void begin(const T* x, split_complex<T> row) const {
    if (kind_ == fft_kind::c2r) {
      if (points_ != length_) return step_.inverse(x, row);
      split(x, length_ / 2 + 1, row);
      row.im[0] = 0;
      for (std::size_t k = 1; k <= length_ / 2; ++k) {
        row.re[length_ - k] = row.re[k];
        row.im[length_ - k] = -row.im[k];
      }
    } else if (kind_ == fft_kind::r2c && points_ == length_) {
      std::copy_n(x, length_, row.re);
      std::fill_n(row.im, length_, T(0));
    } else {
      split(x, points_, row);
    }
  }
  HWY_INLINE void finish(split_complex<T> row, T scale, T* y) const {
    const split_complex<const T> z{row.re, row.im};
    if (kind_ == fft_kind::r2c) {
      if (points_ != length_) return step_.forward(z, scale, y);
      row.im[0] = 0;
      join(z, length_ / 2 + 1, scale, y);
    } else if (kind_ == fft_kind::c2r && points_ == length_) {
      for (std::size_t i = 0; i < length_; ++i) y[i] = row.re[i] * scale;
    } else {
      join(z, points_, scale, y);
    }
  }

  fft_kind kind_;
  std::size_t length_;
  std::size_t points_;
  std::unique_ptr<row_transform<T>> transform_;
  real_step<T> step_;
  std::size_t distance_;  // between split rows
};

std::unique_ptr<host_rows> make_rows(const fft_row& row) {
  if (row.is_double != 0) return std::make_unique<typed_rows<double>>(row);
  return std::make_unique<typed_rows<float>>(row);
}
std::size_t rows_bytes(const fft_row& row) {
  return row.is_double != 0 ? typed_rows<double>::bytes(row) : typed_rows<float>::bytes(row);
}

}  // namespace sluice::operations::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::operations {

HWY_EXPORT(make_rows);
HWY_EXPORT(rows_bytes);

std::unique_ptr<host_rows> make_host_rows(const fft_row& row) {
  return HWY_DYNAMIC_DISPATCH(make_rows)(row);
}
std::size_t host_rows_bytes(const fft_row& row) {
  return HWY_DYNAMIC_DISPATCH(rows_bytes)(row);
}

}  // namespace sluice::operations
#endif
