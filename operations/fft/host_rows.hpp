// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/fft/fft_call.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sluice::operations {

/// Where rows lie.
struct fft_rows_location {
  const void* x;
  std::int64_t input_distance;  ///< between rows of X, in elements
  void* y;
  std::int64_t output_distance;  ///< between rows of Y, in elements
};

/// The transforms of rows of one kind and length on the host. Thread-safe if each thread has
/// scratch memory of its own.
class host_rows {
 public:
  virtual ~host_rows() = default;
  /// Transforms `count` rows and multiplies the results by `scale`. The result of a row does not
  /// depend on the other rows. X and Y do not overlap, or are the same rows of complex numbers.
  /// @param scratch `scratch_bytes()` bytes, which are overwritten
  virtual void run(const fft_rows_location& rows, std::int64_t count, double scale,
                   void* scratch) const = 0;
  [[nodiscard]] virtual std::size_t scratch_bytes() const noexcept = 0;
};

/// A transform with the largest vectors that the processor has. Powers of two and their multiples
/// are spread over the lanes of a vector; of other lengths, each lane has a row of its own. The
/// algorithm is Stockham's (W. T. Cochran et al., "What is the fast Fourier transform?", 1967); for
/// a prime factor above `largest_butterfly` it is Bluestein's.
[[nodiscard]] std::unique_ptr<host_rows> make_host_rows(const fft_row& row);
/// The size of the tables of `make_host_rows`, and of the scratch memory of one thread.
/// @throws std::length_error if the length is too large
[[nodiscard]] std::size_t host_rows_bytes(const fft_row& row);

}  // namespace sluice::operations
