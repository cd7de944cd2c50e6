// SPDX-License-Identifier: Apache-2.0
// Complex transforms of rows. Compiled for each target of Highway.
#if defined(SLUICE_FFT_ROW_TRANSFORM_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_FFT_ROW_TRANSFORM_INL
#undef SLUICE_FFT_ROW_TRANSFORM_INL
#else
#define SLUICE_FFT_ROW_TRANSFORM_INL
#endif

#include "operations/fft/column_transform-inl.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

HWY_BEFORE_NAMESPACE();
namespace sluice::operations::HWY_NAMESPACE {

/// The forward complex transform of rows of one length. Thread-safe if each thread has scratch
/// memory of its own.
template <class T>
class row_transform {
 public:
  virtual ~row_transform() = default;
  /// The rows that are transformed at once.
  [[nodiscard]] virtual std::size_t rows() const noexcept = 0;
  /// The size of the scratch memory.
  [[nodiscard]] virtual std::size_t scratch_bytes() const noexcept = 0;
  /// Transforms `count` rows, at most `rows()`. There is memory for `rows()` rows, which is
  /// overwritten.
  /// @param rows     the first row
  /// @param distance between rows, in elements
  /// @return the first row of the result, at the same distance: there, or in scratch memory
  virtual split_complex<T> run(split_complex<T> rows, std::size_t distance, std::size_t count,
                               scratch_memory scratch) const = 0;
};

/// The largest number of lanes up to `limit`, a power of two, over which a row can be spread: it
/// has at least as many elements in each lane. 1: none.
[[nodiscard]] inline std::size_t lanes_of_row(std::size_t length, std::size_t limit) {
  std::size_t lanes = limit;
  while (lanes > 1 && (length % lanes != 0 || length / lanes < lanes)) lanes /= 2;
  return lanes;
}

#if HWY_TARGET != HWY_SCALAR
/// One row at a time. Lane l transforms the elements l, l + lanes, l + 2 · lanes …; the transforms
/// over the lanes follow, for as many bins at once.
template <class T, std::size_t lanes>
class spread_row_transform final : public row_transform<T> {
 public:
  explicit spread_row_transform(std::size_t length)
      : length_(length), rows_(length / lanes), passes_(make_passes<T>(rows_)), twiddles_(length) {
    for (std::size_t k = 0; k < rows_; ++k) {
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const auto root = root_of_unity<T>(-1, k * lane, length);
        twiddles_.get().re[k * lanes + lane] = root.real();
        twiddles_.get().im[k * lanes + lane] = root.imag();
      }
    }
  }
  [[nodiscard]] static std::size_t bytes(std::size_t length) noexcept {
    return 2 * split_buffer<T>::bytes(length) + pass_bytes<T>(length / lanes);
  }
  [[nodiscard]] static std::size_t rows_at_once(std::size_t) noexcept { return 1; }
  [[nodiscard]] std::size_t rows() const noexcept override { return 1; }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return scratch_memory::bytes<T>(length_);
  }
  split_complex<T> run(split_complex<T> row, std::size_t, std::size_t,
                       scratch_memory memory) const override {
    const auto scratch = memory.take<T>(length_);
    const auto z = transform_columns<lanes>(passes_, lanes, row, scratch);
    const auto bins = z.re == row.re ? scratch : row;
    for (std::size_t k = 0; k + lanes <= rows_; k += lanes) finish(z, k, bins);
    if (rows_ % lanes != 0) finish(z, rows_ - lanes, bins);  // some bins a second time
    return bins;
  }

 private:
  /// Bins k + rows · q for `lanes` bins k from `first`.
  HWY_INLINE void finish(const split_complex<T>& z, std::size_t first,
                         const split_complex<T>& bins) const {
    const vectors<T, lanes> d;
    const auto twiddles = twiddles_.get();
    hn::Vec<decltype(d)> re[lanes];
    hn::Vec<decltype(d)> im[lanes];
    HWY_UNROLL(16)
    for (std::size_t i = 0; i < lanes; ++i) {
      const std::size_t offset = (first + i) * lanes;
      const auto rotation = product(load(d, z.re + offset, z.im + offset),
                                    load(d, twiddles.re + offset, twiddles.im + offset));
      re[i] = rotation.re;
      im[i] = rotation.im;
    }
    transpose(d, re);
    transpose(d, im);
    complex_vector<vectors<T, lanes>> block[lanes];
    HWY_UNROLL(16)
    for (std::size_t i = 0; i < lanes; ++i) block[i] = {re[i], im[i]};
    butterfly<lanes>(vectors<T, lanes>(), block);
    HWY_UNROLL(16)
    for (std::size_t q = 0; q < lanes; ++q) {
      const std::size_t bin = first + q * rows_;
      store(vectors<T, lanes>(), block[q], bins.re + bin, bins.im + bin);
    }
  }

  std::size_t length_;
  std::size_t rows_;  // in each lane
  fft_passes<T> passes_;
  split_buffer<T> twiddles_;
};
#endif

/// One row in each lane, or a single row.
template <class T>
class stacked_row_transform final : public row_transform<T> {
 public:
  explicit stacked_row_transform(std::size_t length)
      : length_(length), passes_(make_passes<T>(length)) {}
  [[nodiscard]] static std::size_t bytes(std::size_t length) noexcept {
    return 2 * split_buffer<T>::bytes(length * rows_at_once(length)) + pass_bytes<T>(length);
  }
  /// Beyond the second cache, several rows at once are slower than one after the other.
  [[nodiscard]] static std::size_t rows_at_once(std::size_t length) noexcept {
    constexpr std::size_t most_bytes = 2U << 20U;
    return length <= most_bytes / (6 * lanes * sizeof(T)) ? lanes : 1;
  }
  [[nodiscard]] std::size_t rows() const noexcept override { return rows_at_once(length_); }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return (rows() == 1 ? 1 : 2) * scratch_memory::bytes<T>(length_ * rows());
  }
  split_complex<T> run(split_complex<T> rows, std::size_t distance, std::size_t count,
                       scratch_memory memory) const override {
    const auto scratch = memory.take<T>(length_ * this->rows());
    if (count == 1) return transform_columns<lanes>(passes_, 1, rows, scratch);
    gather(rows.re, distance, scratch.re);
    gather(rows.im, distance, scratch.im);
    const auto z =
        transform_columns<lanes>(passes_, lanes, scratch, memory.take<T>(length_ * lanes));
    scatter(z.re, rows.re, distance);
    scatter(z.im, rows.im, distance);
    return rows;
  }

 private:
  static constexpr std::size_t lanes = HWY_LANES(T);

  /// From rows to columns.
  void gather(const T* rows, std::size_t distance, T* columns) const {
    std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
    const vectors<T, lanes> d;
    hn::Vec<vectors<T, lanes>> block[lanes];
    for (; i + lanes <= length_; i += lanes) {
      HWY_UNROLL(16)
      for (std::size_t r = 0; r < lanes; ++r) block[r] = hn::LoadU(d, rows + r * distance + i);
      transpose(d, block);
      HWY_UNROLL(16)
      for (std::size_t r = 0; r < lanes; ++r) hn::StoreU(block[r], d, columns + (i + r) * lanes);
    }
#endif
    for (; i < length_; ++i) {
      for (std::size_t r = 0; r < lanes; ++r) columns[i * lanes + r] = rows[r * distance + i];
    }
  }
  /// From columns to rows.
  void scatter(const T* columns, T* rows, std::size_t distance) const {
    std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
    const vectors<T, lanes> d;
    hn::Vec<vectors<T, lanes>> block[lanes];
    for (; i + lanes <= length_; i += lanes) {
      HWY_UNROLL(16)
      for (std::size_t r = 0; r < lanes; ++r) block[r] = hn::LoadU(d, columns + (i + r) * lanes);
      transpose(d, block);
      HWY_UNROLL(16)
      for (std::size_t r = 0; r < lanes; ++r) hn::StoreU(block[r], d, rows + r * distance + i);
    }
#endif
    for (; i < length_; ++i) {
      for (std::size_t r = 0; r < lanes; ++r) rows[r * distance + i] = columns[i * lanes + r];
    }
  }

  std::size_t length_;
  fft_passes<T> passes_;
};

/// Calls `visitor.visit<Transform>(length)` with the transform for a length without large prime
/// factors.
template <class T, class Visitor>
auto with_row_transform(std::size_t length, const Visitor& visitor) {
#if HWY_TARGET != HWY_SCALAR
  constexpr std::size_t limit = HWY_LANES(T);
  const std::size_t lanes = lanes_of_row(length, limit);
  constexpr std::size_t fewest = 16 / sizeof(T);
  if (lanes == limit) return visitor.template visit<spread_row_transform<T, limit>>(length);
  if constexpr (limit > fewest) {
    if (lanes == limit / 2) {
      return visitor.template visit<spread_row_transform<T, limit / 2>>(length);
    }
  }
  if constexpr (limit > 2 * fewest) {
    if (lanes == fewest) return visitor.template visit<spread_row_transform<T, fewest>>(length);
  }
#endif
  return visitor.template visit<stacked_row_transform<T>>(length);
}

template <class T>
struct row_transform_maker {
  template <class Transform>
  [[nodiscard]] std::unique_ptr<row_transform<T>> visit(std::size_t length) const {
    return std::make_unique<Transform>(length);
  }
};
/// The size of a transform and of the rows that it transforms at once.
template <class T>
struct row_transform_size {
  template <class Transform>
  [[nodiscard]] std::size_t visit(std::size_t length) const {
    return Transform::bytes(length) +
           Transform::rows_at_once(length) * split_buffer<T>::bytes(length);
  }
};

/// Because a butterfly takes quadratic time for a large prime factor: Bluestein's algorithm over a
/// power of two (L. Bluestein, "A linear filtering approach to the computation of discrete Fourier
/// transform", 1970), in double.
template <class T>
class bluestein_row_transform final : public row_transform<T> {
 public:
  explicit bluestein_row_transform(std::size_t length)
      : length_(length),
        padded_(padded_length(length)),
        inner_(with_row_transform<double>(padded_, row_transform_maker<double>())),
        chirp_(length),
        filter_(padded_) {
    // chirp[k] = exp(-πi k²/n); k² modulo 2n by its differences, which do not overflow.
    const std::size_t period = 2 * length;
    const auto chirp = chirp_.get();
    std::size_t square = 0;
    for (std::size_t k = 0; k < length; ++k) {
      const auto root = root_of_unity<double>(-1, square, period);
      chirp.re[k] = root.real();
      chirp.im[k] = root.imag();
      square = (square + (2 * k + 1)) % period;
    }
    const auto filter = filter_.get();
    filter.re[0] = chirp.re[0];
    filter.im[0] = -chirp.im[0];
    for (std::size_t k = 1; k < length; ++k) {
      filter.re[k] = filter.re[padded_ - k] = chirp.re[k];
      filter.im[k] = filter.im[padded_ - k] = -chirp.im[k];
    }
    std::vector<std::byte> memory(inner_->scratch_bytes() + scratch_memory::slack);
    const auto spectrum = inner_->run(filter, 0, 1, scratch_memory(memory.data()));
    for (std::size_t k = 0; k < padded_; ++k) {
      filter.re[k] = spectrum.re[k] / static_cast<double>(padded_);
      filter.im[k] = spectrum.im[k] / static_cast<double>(padded_);
    }
  }
  [[nodiscard]] static std::size_t bytes(std::size_t length) {
    const std::size_t padded = padded_length(length);
    return split_buffer<double>::bytes(length) + 2 * split_buffer<double>::bytes(padded) +
           with_row_transform<double>(padded, row_transform_size<double>());
  }
  [[nodiscard]] static std::size_t rows_at_once(std::size_t) noexcept { return 1; }
  [[nodiscard]] std::size_t rows() const noexcept override { return 1; }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return scratch_memory::bytes<double>(padded_) + inner_->scratch_bytes();
  }
  split_complex<T> run(split_complex<T> row, std::size_t, std::size_t,
                       scratch_memory memory) const override {
    const auto z = memory.take<double>(padded_);
    const auto chirp = chirp_.get();
    const auto filter = filter_.get();
    for (std::size_t k = 0; k < length_; ++k) {
      const double re = row.re[k];
      const double im = row.im[k];
      z.re[k] = re * chirp.re[k] - im * chirp.im[k];
      z.im[k] = re * chirp.im[k] + im * chirp.re[k];
    }
    std::fill(z.re + length_, z.re + padded_, 0);
    std::fill(z.im + length_, z.im + padded_, 0);
    const auto spectrum = inner_->run(z, 0, 1, memory);
    for (std::size_t k = 0; k < padded_; ++k) {
      const double re = spectrum.re[k];
      const double im = spectrum.im[k];
      z.re[k] = re * filter.re[k] - im * filter.im[k];
      z.im[k] = re * filter.im[k] + im * filter.re[k];
    }
    const auto product =
        inner_->run(z.swapped(), 0, 1, memory).swapped();  // of the inverse transform
    for (std::size_t k = 0; k < length_; ++k) {
      const double re = product.re[k];
      const double im = product.im[k];
      row.re[k] = static_cast<T>(re * chirp.re[k] - im * chirp.im[k]);
      row.im[k] = static_cast<T>(re * chirp.im[k] + im * chirp.re[k]);
    }
    return row;
  }

 private:
  std::size_t length_;
  std::size_t padded_;
  std::unique_ptr<row_transform<double>> inner_;
  split_buffer<double> chirp_;
  split_buffer<double> filter_;
};

template <class T>
[[nodiscard]] std::unique_ptr<row_transform<T>> make_row_transform(std::size_t length) {
  if (largest_prime_factor(length) > largest_butterfly) {
    return std::make_unique<bluestein_row_transform<T>>(length);
  }
  return with_row_transform<T>(length, row_transform_maker<T>());
}
/// @throws std::length_error if the length is too large
template <class T>
[[nodiscard]] std::size_t row_transform_bytes(std::size_t length) {
  if (largest_prime_factor(length) > largest_butterfly) {
    return row_transform_size<T>().template visit<bluestein_row_transform<T>>(length);
  }
  return with_row_transform<T>(length, row_transform_size<T>());
}

}  // namespace sluice::operations::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
