// SPDX-License-Identifier: Apache-2.0
// Products that are not computed in the type of their factors.
#include "tests/operations/elementwise/elements.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/blas.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>

namespace sluice::test {
namespace {

class mixed_gemm : public elementwise_test {
 protected:
  /// How far an element of C may be from `wanted`. `terms` is the sum of the magnitudes that are
  /// added, and `count` their number.
  static long double bound_of(element_type c, long double wanted, long double terms,
                              std::int64_t count, bool is_tf32) {
    const long double last = c == element_type::f16    ? 0x1p-11L
                             : c == element_type::bf16 ? 0x1p-8L
                                                       : 0x1p-24L;
    const long double factors = is_tf32 ? 0x1p-10L : 0;
    const long double smallest = c == element_type::f16 ? 0x1p-25L : 0x1p-133L;
    return std::abs(wanted) * last +
           terms * (factors + static_cast<long double>(count + 4) * 0x1p-24L) + smallest;
  }

  void expect_product(element_type type, element_type c_type, const extents& stack, std::int64_t m,
                      std::int64_t n, std::int64_t k, math_mode math) {
    SCOPED_TRACE(std::string(to_string(type)) + " to " + std::string(to_string(c_type)) + " " +
                 to_string(stack) + " " + std::to_string(m) + " " + std::to_string(n) + " " +
                 std::to_string(k));
    const auto stacked = [&](std::int64_t rows, std::int64_t columns) {
      auto shape = stack;
      shape.push_back(rows);
      shape.push_back(columns);
      return shape;
    };
    const auto a = make(type, stacked(m, k));
    const auto b = coin() ? make(type, stacked(k, n)) : make(type, {k, n});
    const auto c = make(c_type, stacked(m, n));
    gemm op{.a = a.view(), .b = b.view(), .alpha = coin() ? 1 : -0.75, .math = math};
    const bool updates = coin();
    const bool has_output = updates || coin();
    const double alpha = op.alpha.to<double>("alpha");
    const double beta = updates ? 0.5 : 0;
    op.beta = beta;
    if (has_output) op.c = c.view();
    if (!has_output) op.type = c_type;
    const auto result = run(test_executor(), op);
    EXPECT_EQ(result.type(), c_type);
    EXPECT_EQ(result.shape(), stacked(m, n));
    expect_each(result, [&](const extents& index, const number& computed) {
      auto left = index;
      auto right = index;
      long double wanted = 0;
      long double terms = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        left[index.size() - 1] = l;
        right[index.size() - 2] = l;
        const auto term = a[left].real() * b[right].real() * static_cast<long double>(alpha);
        wanted += term;
        terms += std::abs(term);
      }
      if (updates) {
        wanted += static_cast<long double>(beta) * c[index].real();
        terms += std::abs(static_cast<long double>(beta) * c[index].real());
      }
      const auto bound = bound_of(c_type, wanted, terms, k, math == math_mode::tf32);
      return std::abs(computed.real() - wanted) <= bound ? ::testing::AssertionSuccess()
                                                         : ::testing::AssertionFailure()
                                                               << computed.real() << " is not "
                                                               << wanted << ", bound " << bound;
    });
    if (has_output) expect_gaps_untouched(c);
  }
};

TEST_P(mixed_gemm, computes_16_bits) {
  for (const auto type : {element_type::f16, element_type::bf16}) {
    for (const auto c_type : {type, element_type::f32}) {
      for (int round = 0; round < 12; ++round) {
        extents stack;
        for (auto rank = between(0, 2); rank > 0; --rank) stack.push_back(between(1, 3));
        expect_product(type, c_type, stack, between(1, 40), between(1, 40), between(0, 50),
                       math_mode::f32);
      }
    }
  }
}

/// They have a plan, and on a GPU an algorithm of cuBLASLt that a trial has found.
TEST_P(mixed_gemm, computes_large_products) {
  const auto m = between(1290, 1330);
  const auto n = between(1290, 1330);
  const auto k = 2 * between(680, 690);
  const auto type = coin() ? element_type::f16 : element_type::bf16;
  const auto a = make(type, {m, k});
  const auto b = make(type, {k, n});
  const auto result = run(test_executor(), gemm{.a = a.view(), .b = b.view(), .alpha = -0.75});
  ASSERT_EQ(result.shape(), extents({m, n}));
  for (int round = 0; round < 10; ++round) {
    const auto row = between(0, m - 1);
    const auto column = between(0, n - 1);
    expect_each(result.slice(0, row, row + 1).slice(1, column, column + 1),
                [&](const extents&, const number& computed) {
                  long double wanted = 0;
                  long double terms = 0;
                  for (std::int64_t l = 0; l < k; ++l) {
                    const auto term = a[{row, l}].real() * b[{l, column}].real() * -0.75L;
                    wanted += term;
                    terms += std::abs(term);
                  }
                  const auto bound = bound_of(type, wanted, terms, k, false);
                  return std::abs(computed.real() - wanted) <= bound ? ::testing::AssertionSuccess()
                                                                     : ::testing::AssertionFailure()
                                                                           << computed.real()
                                                                           << " is not " << wanted;
                });
  }
}

TEST_P(mixed_gemm, computes_long_sums_and_many_blocks) {
  expect_product(element_type::f16, element_type::f16, {}, 7, 9, 5000, math_mode::f32);
  expect_product(element_type::bf16, element_type::f32, {}, 300, 280, 130, math_mode::f32);
  // Sums of many equal numbers, which 16 bits do not hold to the end.
  const std::int64_t k = 8192;
  auto ones = make_contiguous(element_type::f16, {1, k});
  ones.set(std::vector<f16>{f16(1.0F)});
  const auto column = ones.view().reshape({k, 1});
  for (const auto c_type : {element_type::f16, element_type::f32}) {
    expect_elements(run(test_executor(), gemm{.a = ones.view(), .b = column, .type = c_type}),
                    [&](const extents&) { return number(static_cast<long double>(k)); });
  }
}

TEST_P(mixed_gemm, may_compute_f32_as_tf32) {
  for (int round = 0; round < 8; ++round) {
    expect_product(element_type::f32, element_type::f32, {}, between(1, 200), between(1, 200),
                   between(1, 300), math_mode::tf32);
  }
}

TEST_P(mixed_gemm, without_products_scales_c) {
  for (const auto type : {element_type::f16, element_type::bf16}) {
    const auto a = make_contiguous(type, {3, 4});
    const auto b = make_contiguous(type, {4, 5});
    auto c = make(type, {3, 5});
    gemm op{.a = a.view(), .b = b.view(), .c = c.view(), .alpha = 0, .beta = -0.5};
    expect_elements(run(test_executor(), op), [&](const extents& i) {
      return number(to_real_type(type, c[i].real() * -0.5L));
    });
    op.beta = 0;
    expect_elements(run(test_executor(), op), [](const extents&) { return number(0); });
  }
}

TEST_P(mixed_gemm, refusals) {
  const auto refuse = [&](const std::string& text, const gemm& op) {
    EXPECT_TRUE(throws(errc::invalid_argument, text, [&] { (void)run(test_executor(), op); }));
  };
  const auto halves = make_contiguous(element_type::f16, {3, 3}).view();
  const auto brains = make_contiguous(element_type::bf16, {3, 3}).view();
  const auto floats = make_contiguous(element_type::f32, {3, 3}).view();
  refuse("b: is of type bf16", {.a = halves, .b = brains});
  refuse("type: is bf16", {.a = halves, .b = halves, .type = element_type::bf16});
  refuse("type: is f64", {.a = floats, .b = floats, .type = element_type::f64});
  refuse("type: is f16", {.a = floats, .b = floats, .type = element_type::f16});
  refuse("c: is bf16", {.a = halves, .b = halves, .c = brains});
  refuse("c: is of type f16", {.a = halves, .b = halves, .c = halves, .type = element_type::f32});
}

INSTANTIATE_TEST_SUITE_P(devices, mixed_gemm, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
