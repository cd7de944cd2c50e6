// SPDX-License-Identifier: Apache-2.0
// The transforms of the host device, with each kind of vectors that the processor has.
#include "operations/fft/host_rows.hpp"

#include "tests/operations/every_vector_target.hpp"
#include "tests/operations/fft/dft.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/relative_error.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace sluice::test {
namespace {

using operations::fft_kind;
using operations::fft_row;
using operations::make_host_rows;

constexpr fft_kind all_kinds[] = {fft_kind::c2c_forward, fft_kind::c2c_inverse, fft_kind::r2c,
                                  fft_kind::c2r};

/// Transforms rows with scratch memory that is not 0.
void run_rows(const operations::host_rows& rows, const operations::fft_rows_location& location,
              std::int64_t count, double scale) {
  std::vector<std::byte> scratch(rows.scratch_bytes(), std::byte{0xff});
  rows.run(location, count, scale, scratch.data());
}

/// Rows are those of the real numbers that they consist of.
template <class Real>
class host_rows_of : public ::testing::Test {
 protected:
  static fft_row row_of(fft_kind kind, std::int64_t length) {
    return {.kind = kind, .is_double = sizeof(Real) == 8 ? 1 : 0, .length = length};
  }
  static std::int64_t input_width(fft_kind kind) { return kind == fft_kind::r2c ? 1 : 2; }
  static std::int64_t output_width(fft_kind kind) { return kind == fft_kind::c2r ? 1 : 2; }
  std::int64_t number(std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution(first, last)(random_);
  }
  std::vector<Real> values(std::int64_t count) {
    return random_values<Real>(random_, static_cast<std::size_t>(count));
  }

  /// The transform of one row by its definition, as real numbers.
  static std::vector<double> reference(const fft_row& row, const Real* x) {
    using complex = std::complex<Real>;
    const auto n = static_cast<std::size_t>(row.length);
    const auto* const z = reinterpret_cast<const complex*>(x);
    if (row.kind == fft_kind::c2r) return inverse_real_dft(z, n);
    const auto bins = row.kind == fft_kind::r2c
                          ? dft(x, n, -1)
                          : dft(z, n, row.kind == fft_kind::c2c_forward ? -1 : 1);
    std::vector<double> parts;
    for (std::int64_t k = 0; k < row.output_row(); ++k) {
      parts.push_back(bins[static_cast<std::size_t>(k)].real());
      parts.push_back(bins[static_cast<std::size_t>(k)].imag());
    }
    return parts;
  }

  /// Transforms `count` random rows with random gaps, at addresses that are not those of a whole
  /// vector, and compares the first and the last row with the definition.
  void expect_right(fft_kind kind, std::int64_t length, std::int64_t count) {
    const auto row = row_of(kind, length);
    SCOPED_TRACE(::testing::Message() << "kind " << static_cast<int>(kind) << " length " << length
                                      << ", " << count << " rows");
    const auto in_distance = row.input_row() + number(0, 3);
    const auto out_distance = row.output_row() + number(0, 3);
    const auto in_width = input_width(kind);
    const auto out_width = output_width(kind);
    const auto shift = number(0, 3);
    const auto scale = std::ldexp(1.0, static_cast<int>(number(-2, 2)));
    const auto x = values(2 * shift + count * in_distance * in_width);
    std::vector<double> expected;
    for (const auto r : {std::int64_t{0}, count - 1}) {
      for (const double part : reference(row, x.data() + 2 * shift + r * in_distance * in_width)) {
        expected.push_back(part * scale);
      }
    }
    for_each_vector_target([&] {
      const auto original = x;
      constexpr Real mark = 12345;
      std::vector<Real> y(static_cast<std::size_t>(2 * shift + count * out_distance * out_width),
                          mark);
      const auto first = y.begin() + 2 * shift;
      run_rows(*make_host_rows(row), {x.data() + 2 * shift, in_distance, &*first, out_distance},
               count, scale);
      EXPECT_EQ(x, original) << "the input has been overwritten";
      std::vector<double> computed(first, first + row.output_row() * out_width);
      const auto last = first + (count - 1) * out_distance * out_width;
      computed.insert(computed.end(), last, last + row.output_row() * out_width);
      EXPECT_LE(relative_error(computed, expected), error_bound<Real>());
      for (std::int64_t i = 0; i < std::ssize(y); ++i) {
        const auto place = i - 2 * shift;
        if (place < 0 || place % (out_distance * out_width) >= row.output_row() * out_width) {
          ASSERT_EQ(y[static_cast<std::size_t>(i)], mark) << "beside a row: " << i;
        }
      }
    });
  }

 private:
  std::mt19937_64 random_ = make_generator();
};

using reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(host_rows_of, reals);

TYPED_TEST(host_rows_of, every_small_length) {
  for (std::int64_t length = 1; length <= 70; ++length) {
    for (const auto kind : all_kinds) this->expect_right(kind, length, this->number(1, 35));
  }
}

// Powers of two, their multiples by odd numbers, odd numbers, and prime factors on both sides of
// the largest butterfly.
TYPED_TEST(host_rows_of, lengths_of_every_kind) {
  for (const std::int64_t length :
       {81, 97, 100, 101, 128, 202, 225, 250, 256, 343, 400, 441, 500, 512, 776, 1000, 1024}) {
    for (const auto kind : all_kinds) this->expect_right(kind, length, this->number(1, 35));
  }
}

TYPED_TEST(host_rows_of, large_lengths) {
  for (const std::int64_t length : {2048, 3125}) {
    for (const auto kind : all_kinds) this->expect_right(kind, length, 2);
  }
}

// Each row of a batch has the bits that it has alone, however many rows there are.
TYPED_TEST(host_rows_of, a_row_does_not_depend_on_others) {
  for_each_vector_target([&] {
    for (const std::int64_t length : {1, 7, 12, 63, 64, 100, 202, 250, 256, 441}) {
      for (const auto kind : all_kinds) {
        SCOPED_TRACE(::testing::Message()
                     << "kind " << static_cast<int>(kind) << " length " << length);
        const auto row = this->row_of(kind, length);
        const auto count = this->number(2, 40);
        const auto in_row = row.input_row() * this->input_width(kind);
        const auto out_row = row.output_row() * this->output_width(kind);
        const auto x = this->values(count * in_row);
        std::vector<TypeParam> together(static_cast<std::size_t>(count * out_row));
        const auto rows = make_host_rows(row);
        run_rows(*rows, {x.data(), row.input_row(), together.data(), row.output_row()}, count, 1);
        for (std::int64_t r = 0; r < count; ++r) {
          std::vector<TypeParam> alone(static_cast<std::size_t>(out_row));
          run_rows(*rows, {x.data() + r * in_row, row.input_row(), alone.data(), row.output_row()},
                   1, 1);
          ASSERT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + r * out_row))
              << "row " << r << " of " << count;
        }
      }
    }
  });
}

TYPED_TEST(host_rows_of, complex_rows_in_place) {
  for_each_vector_target([&] {
    for (const std::int64_t length : {1, 6, 101, 128, 250}) {
      for (const auto kind : {fft_kind::c2c_forward, fft_kind::c2c_inverse}) {
        const auto rows = make_host_rows(this->row_of(kind, length));
        auto x = this->values(2 * 21 * length);
        std::vector<TypeParam> y(x.size());
        run_rows(*rows, {x.data(), length, y.data(), length}, 21, 1);
        run_rows(*rows, {x.data(), length, x.data(), length}, 21, 1);
        EXPECT_EQ(x, y) << length;
      }
    }
  });
}

}  // namespace
}  // namespace sluice::test
