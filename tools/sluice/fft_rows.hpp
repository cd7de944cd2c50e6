// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <complex>
#include <cstddef>
#include <span>
#include <vector>

namespace sluice::cli {

/// Cuts each row of `row_length` elements in `values` to `wanted` elements, or pads it with zeros.
/// `row_length` is at least 1.
template <class T>
std::vector<T> rows_of_length(std::span<const T> values, std::size_t row_length,
                              std::size_t wanted) {
  const std::size_t batch = values.size() / row_length;
  const std::size_t kept = std::min(row_length, wanted);
  std::vector<T> rows(batch * wanted);
  for (std::size_t b = 0; b < batch; ++b)
    std::copy_n(values.data() + b * row_length, kept, rows.data() + b * wanted);
  return rows;
}

/// Sets the imaginary part of bin 0 and, for even `length`, of bin length/2 to zero, in rows of
/// length/2 + 1 bins. In the spectrum of real numbers they are zero, and `numpy.fft.irfft` ignores
/// them. FFT libraries differ here.
template <class Real>
void make_hermitian_ends(std::span<std::complex<Real>> rows, std::size_t length) {
  const std::size_t row = length / 2 + 1;
  for (std::size_t first = 0; first < rows.size(); first += row) {
    rows[first].imag(0);
    if (length % 2 == 0) rows[first + row - 1].imag(0);
  }
}

}  // namespace sluice::cli
