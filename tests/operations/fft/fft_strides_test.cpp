// SPDX-License-Identifier: Apache-2.0
// Transforms of tensors with random strides, offsets and sizes.
#include "tests/operations/executing.hpp"
#include "tests/operations/fft/dft.hpp"
#include "tests/operations/strided.hpp"
#include "tests/support/relative_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/fft.hpp>
#include <sluice/operations/transfer.hpp>

#include <gtest/gtest.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

namespace sluice::test {
namespace {

class fft_strides : public executor_test {
 protected:
  /// A random stack of rows, sometimes an empty one.
  extents random_stack() {
    extents stack;
    for (auto rank = draw(4); rank > 0; --rank) stack.push_back(draw(10) == 0 ? 0 : 1 + draw(4));
    return stack;
  }
  static extents rows_of(const extents& stack, std::int64_t length) {
    auto shape = stack;
    shape.push_back(length);
    return shape;
  }
  std::int64_t draw(std::int64_t below) {
    return std::uniform_int_distribution<std::int64_t>(0, below - 1)(generator_);
  }
  template <class T>
  strided<T> make(const extents& shape) {
    return {runtime(), stream(), generator_, random_layout(generator_, shape)};
  }
  /// The same rows, but sometimes one stands for all along a dimension of the stack.
  template <class T>
  strided<T> make_repeated(extents shape) {
    for (std::size_t d = 0; d + 1 < shape.size(); ++d) {
      if (shape[d] != 0 && draw(6) == 0) shape[d] = 1;
    }
    return make<T>(shape);
  }
  /// The index in the memory of `t` of an element of a tensor to which it is broadcast.
  template <class T>
  static std::size_t position(const strided<T>& t, extents index) {
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (t.view().shape()[d] == 1) index[d] = 0;
    }
    return t.position(index);
  }
  /// Expects `y` to be the transforms of the rows of `x` and its gaps to be as before.
  /// `reference(row)` is the transform of one row.
  template <class X, class Y, class Reference>
  void expect_rows(const extents& stack, const strided<X>& x, std::int64_t input_row,
                   const strided<Y>& y, std::int64_t output_row, const Reference& reference) {
    auto current = y.current();
    std::vector<std::complex<double>> computed;
    std::vector<std::complex<double>> expected;
    for_each_index(stack, [&](const extents& row) {
      std::vector<X> source;
      for (std::int64_t i = 0; i < input_row; ++i) {
        source.push_back(x.memory()[position(x, rows_of(row, i))]);
      }
      for (const auto& value : reference(source.data())) expected.emplace_back(value);
      for (std::int64_t i = 0; i < output_row; ++i) {
        auto& value = current[y.position(rows_of(row, i))];
        computed.emplace_back(value);
        value = y[rows_of(row, i)];
      }
    });
    EXPECT_LE(relative_error(computed, expected), error_bound<Y>() * 4);
    EXPECT_EQ(current, y.memory()) << "a gap of y was written";
  }
  template <class X, class Y>
  std::string described(const strided<X>& x, const strided<Y>& y) {
    return "x " + to_string(x.view().shape()) + " strides " + to_string(x.view().strides()) +
           ", y " + to_string(y.view().shape()) + " strides " + to_string(y.view().strides());
  }

  template <class Real>
  void expect_complex_transforms() {
    using value = std::complex<Real>;
    for (int i = 0; i < 40; ++i) {
      const auto stack = random_stack();
      const auto n = 1 + draw(24);
      const bool forward = draw(2) == 0;
      const auto x = make_repeated<value>(rows_of(stack, n));
      const auto y = make<value>(rows_of(stack, n));
      SCOPED_TRACE(described(x, y));
      const auto result = run(test_executor(), fft{.x = x.view().broadcast_to(y.view().shape()),
                                                   .y = y.view(),
                                                   .direction = forward ? fft_direction::forward
                                                                        : fft_direction::inverse});
      EXPECT_EQ(result, y.view());
      expect_rows(stack, x, n, y, n, [&](const value* row) {
        return dft(row, static_cast<std::size_t>(n), forward ? -1 : 1);
      });
      EXPECT_EQ(x.current(), x.memory()) << "x has been overwritten";
    }
  }
  template <class Real>
  void expect_real_transforms() {
    using value = std::complex<Real>;
    for (int i = 0; i < 40; ++i) {
      const auto stack = random_stack();
      const auto n = 1 + draw(24);
      const auto bins = n / 2 + 1;
      const auto x = make_repeated<Real>(rows_of(stack, n));
      const auto y = make<value>(rows_of(stack, bins));
      SCOPED_TRACE(described(x, y));
      (void)run(test_executor(),
                rfft{.x = x.view().broadcast_to(rows_of(stack, n)), .y = y.view()});
      expect_rows(stack, x, n, y, bins, [&](const Real* row) {
        auto all = dft(row, static_cast<std::size_t>(n), -1);
        all.resize(static_cast<std::size_t>(bins));
        return all;
      });
      EXPECT_EQ(x.current(), x.memory()) << "x has been overwritten";
    }
  }
  template <class Real>
  void expect_inverse_real_transforms() {
    using value = std::complex<Real>;
    for (int i = 0; i < 40; ++i) {
      const auto stack = random_stack();
      const auto n = 1 + draw(24);
      const auto bins = n / 2 + 1;
      const auto x = make_repeated<value>(rows_of(stack, bins));
      const auto y = make<Real>(rows_of(stack, n));
      SCOPED_TRACE(described(x, y));
      (void)run(
          test_executor(),
          irfft{.x = x.view().broadcast_to(rows_of(stack, bins)), .y = y.view(), .length = n});
      expect_rows(stack, x, bins, y, n, [&](const value* row) {
        return inverse_real_dft(row, static_cast<std::size_t>(n));
      });
      EXPECT_EQ(x.current(), x.memory()) << "x has been overwritten";
    }
  }

 private:
  std::mt19937_64 generator_ = make_generator();
};

TEST_P(fft_strides, complex_f32) {
  expect_complex_transforms<float>();
}
TEST_P(fft_strides, complex_f64) {
  expect_complex_transforms<double>();
}
TEST_P(fft_strides, real_f32) {
  expect_real_transforms<float>();
}
TEST_P(fft_strides, real_f64) {
  expect_real_transforms<double>();
}
TEST_P(fft_strides, inverse_real_f32) {
  expect_inverse_real_transforms<float>();
}
TEST_P(fft_strides, inverse_real_f64) {
  expect_inverse_real_transforms<double>();
}

// The layout of an in-place transform, whose gaps belong to the transform.
TEST_P(fft_strides, inverse_real_rows_keep_their_gaps) {
  const auto check = [&]<class Real>(Real) {
    for (std::int64_t n = 1; n <= 24; ++n) {
      const auto bins = n / 2 + 1;
      constexpr Real before = 7;
      const auto type = std::is_same_v<Real, float> ? element_type::c64 : element_type::c128;
      const auto x =
          run(test_executor(), fill{.value = 1, .shape = extents{5, bins}, .type = type});
      const auto all = test::upload(
          runtime(), stream(), std::vector<Real>(static_cast<std::size_t>(5 * 2 * bins), before));
      const auto y = tensor(all).reshape({5, 2 * bins}).slice(1, 0, n);
      (void)run(test_executor(), irfft{.x = x, .y = y, .length = n});
      const auto found = test::download(all, stream());
      for (std::int64_t row = 0; row < 5; ++row) {
        for (std::int64_t i = n; i < 2 * bins; ++i) {
          ASSERT_EQ(found[static_cast<std::size_t>(row * 2 * bins + i)], before) << "length " << n;
        }
      }
    }
  };
  check(float{});
  check(double{});
}

TEST_P(fft_strides, in_place) {
  using value = std::complex<double>;
  for (int i = 0; i < 20; ++i) {
    const auto stack = random_stack();
    const auto n = 1 + draw(24);
    const auto x = make<value>(rows_of(stack, n));
    SCOPED_TRACE(described(x, x));
    (void)run(test_executor(), fft{.x = x.view(), .y = x.view()});
    expect_rows(stack, x, n, x, n,
                [&](const value* row) { return dft(row, static_cast<std::size_t>(n), -1); });
  }
}

TEST_P(fft_strides, rows_that_are_one_row_or_overlap) {
  const auto signal = make<std::complex<double>>({6});
  const auto y = make<double>({4, 3});
  const auto expected_of = [&](const extents& strides) {
    std::vector<std::complex<double>> expected;
    for (std::int64_t row = 0; row < 4; ++row) {
      const std::array bins{signal[{row * strides[0]}], signal[{row * strides[0] + strides[1]}]};
      for (const auto number : inverse_real_dft(bins.data(), 3)) expected.emplace_back(number);
    }
    return expected;
  };
  for (const auto& strides : {extents{0, 1}, extents{1, 1}, extents{1, 2}, extents{0, 0}}) {
    SCOPED_TRACE(to_string(strides));
    const auto step = signal.view().strides()[0];
    const tensor x(signal.view().block(), element_type::c128, {4, 2},
                   {strides[0] * step, strides[1] * step}, signal.view().offset());
    (void)run(test_executor(), irfft{.x = x, .y = y.view(), .length = 3});
    const auto current = y.current();
    std::vector<std::complex<double>> computed;
    for_each_index(
        {4, 3}, [&](const extents& index) { computed.emplace_back(current[y.position(index)]); });
    EXPECT_LE(relative_error(computed, expected_of(strides)), error_bound<double>());
  }
}

INSTANTIATE_TEST_SUITE_P(devices, fft_strides, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
