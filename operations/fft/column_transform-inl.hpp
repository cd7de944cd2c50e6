// SPDX-License-Identifier: Apache-2.0
// Transforms of many columns at once, one in each lane. Compiled for each target of Highway.
#if defined(SLUICE_FFT_COLUMN_TRANSFORM_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_FFT_COLUMN_TRANSFORM_INL
#undef SLUICE_FFT_COLUMN_TRANSFORM_INL
#else
#define SLUICE_FFT_COLUMN_TRANSFORM_INL
#endif

#include "operations/fft/butterflies-inl.hpp"
#include "operations/fft/fft_tables.hpp"
#include "operations/fft/split_complex.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace sluice::operations::HWY_NAMESPACE {

/// The butterfly of a radix that has none of its own: odd, in quadratic time.
/// @param roots exp(-2πi k / radix) as real and imaginary parts, for k below radix
template <class D>
HWY_INLINE void odd_butterfly(D d, std::size_t radix, const hn::TFromD<D>* roots,
                              complex_vector<D>* a) {
  // a[j] ± a[radix - j]: their roots are conjugates.
  const std::size_t half = radix / 2;
  complex_vector<D> sums[largest_butterfly / 2 + 1];
  complex_vector<D> differences[largest_butterfly / 2 + 1];
  const complex_vector<D> first = a[0];
  for (std::size_t j = 1; j <= half; ++j) {
    sums[j] = sum(a[j], a[radix - j]);
    differences[j] = difference(a[j], a[radix - j]);
    a[0] = sum(a[0], sums[j]);
  }
  for (std::size_t k = 1; k <= half; ++k) {
    complex_vector<D> even = first;
    complex_vector<D> odd{hn::Zero(d), hn::Zero(d)};
    std::size_t root = 0;
    for (std::size_t j = 1; j <= half; ++j) {
      root += k;
      if (root >= radix) root -= radix;
      const auto cosine = hn::Set(d, roots[2 * root]);
      const auto sine = hn::Set(d, roots[2 * root + 1]);
      even = {hn::MulAdd(cosine, sums[j].re, even.re), hn::MulAdd(cosine, sums[j].im, even.im)};
      odd = {hn::MulAdd(sine, differences[j].re, odd.re),
             hn::MulAdd(sine, differences[j].im, odd.im)};
    }
    a[k] = plus_i(even, odd);
    a[radix - k] = minus_i(even, odd);
  }
}

/// One pass of Stockham's algorithm, decimation in frequency, over `count` columns side by side.
/// Each butterfly is that of as many columns, or of as many butterflies of a group, as there are
/// lanes.
/// @tparam Radix 0: the radix of the pass, which is odd
/// @tparam Last  whether the pass has one group, whose twiddles are 1
template <int Radix, bool Last, class D, class T = hn::TFromD<D>>
void run_pass(D d, const fft_pass<T>& pass, std::size_t count, split_complex<T> input,
              split_complex<T> output) {
  constexpr std::size_t lanes = hn::MaxLanes(D());
  const std::size_t radix = Radix != 0 ? Radix : pass.radix;
  const std::size_t row = pass.stride * count;
  const std::size_t distance = pass.groups * row;
  const T* twiddle = pass.twiddles.data();
  complex_vector<D> a[Radix != 0 ? Radix : largest_butterfly];
  for (std::size_t group = 0; group < pass.groups; ++group) {
    // The last lanes of a row may be computed twice.
    for (std::size_t i = 0; i < row; i = i + lanes < row ? std::min(i + lanes, row - lanes) : row) {
      const std::size_t source = group * row + i;
      const std::size_t target = group * radix * row + i;
      HWY_UNROLL(16)
      for (std::size_t j = 0; j < radix; ++j) {
        a[j] = load(d, input.re + source + j * distance, input.im + source + j * distance);
      }
      if constexpr (Radix == 0 || Radix == 7) {
        odd_butterfly(d, radix, pass.roots.data(), a);
      } else {
        butterfly<Radix>(d, a);
      }
      store(d, a[0], output.re + target, output.im + target);
      HWY_UNROLL(16)
      for (std::size_t k = 1; k < radix; ++k) {
        const std::size_t bin = target + k * row;
        if constexpr (Last) {
          store(d, a[k], output.re + bin, output.im + bin);
        } else {
          const complex_vector<D> w{hn::Set(d, twiddle[2 * k - 2]), hn::Set(d, twiddle[2 * k - 1])};
          store(d, product(a[k], w), output.re + bin, output.im + bin);
        }
      }
    }
    twiddle += 2 * (radix - 1);
  }
}

template <bool Last, class D, class T>
HWY_INLINE void run_any_radix(D d, const fft_pass<T>& pass, std::size_t count,
                              split_complex<T> input, split_complex<T> output) {
  switch (pass.radix) {
    case 2:
      return run_pass<2, Last>(d, pass, count, input, output);
    case 3:
      return run_pass<3, Last>(d, pass, count, input, output);
    case 4:
      return run_pass<4, Last>(d, pass, count, input, output);
    case 5:
      return run_pass<5, Last>(d, pass, count, input, output);
    case 7:
      return run_pass<7, Last>(d, pass, count, input, output);
    case 8:
      return run_pass<8, Last>(d, pass, count, input, output);
    default:
      return run_pass<0, Last>(d, pass, count, input, output);
  }
}
template <std::size_t lanes, class T>
void run_any_pass(const fft_pass<T>& pass, std::size_t count, split_complex<T> input,
                  split_complex<T> output) {
  const vectors<T, lanes> d;
  pass.groups == 1 ? run_any_radix<true>(d, pass, count, input, output)
                   : run_any_radix<false>(d, pass, count, input, output);
}

/// The forward transforms of `count` columns: row j of the columns is elements
/// [j · count, (j + 1) · count). The passes go back and forth between two buffers. The result of a
/// column does not depend on `count`.
/// @tparam lanes of the vectors; where a pass has fewer columns and butterflies, they are smaller
/// @return the buffer with the result, `z` or `other`
template <std::size_t lanes, class T>
split_complex<T> transform_columns(const fft_passes<T>& passes, std::size_t count,
                                   split_complex<T> z, split_complex<T> other) {
  constexpr std::size_t fewer = std::min<std::size_t>(lanes, 16 / sizeof(T));
  for (const auto& pass : passes) {
    const std::size_t row = pass.stride * count;
    if (row >= lanes) {
      run_any_pass<lanes>(pass, count, z, other);
    } else if (row >= fewer) {
      run_any_pass<fewer>(pass, count, z, other);
    } else {
      run_any_pass<1>(pass, count, z, other);
    }
    std::swap(z, other);
  }
  return z;
}

}  // namespace sluice::operations::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
