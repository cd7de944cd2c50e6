// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit integers, which are exact.
#include "tests/operations/elementwise/elements.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/operations/program.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using enum element_type;

class integer_gemm : public elementwise_test {
 protected:
  /// C of the products of `a` and `b`, which wrap around.
  void expect_products(const tensor& result, const elements& a, const elements& b, std::int64_t k,
                       const elements* previous) {
    EXPECT_EQ(result.type(), i32);
    expect_elements(result, [&](const extents& index) {
      auto left = index;
      auto right = index;
      auto sum = previous == nullptr ? 0 : static_cast<std::int64_t>((*previous)[index].real());
      for (std::int64_t l = 0; l < k; ++l) {
        left[index.size() - 1] = l;
        right[index.size() - 2] = l;
        sum += static_cast<std::int64_t>(a[left].real() * b[right].real());
      }
      return number(static_cast<std::int32_t>(static_cast<std::uint32_t>(sum)));
    });
  }
};

TEST_P(integer_gemm, computes_products_of_any_strides) {
  for (const auto type : {i8, u8}) {
    for (int round = 0; round < 40; ++round) {
      SCOPED_TRACE(std::string(to_string(type)) + ", round " + std::to_string(round));
      extents stack;
      for (auto rank = between(0, 2); rank > 0; --rank) stack.push_back(between(1, 3));
      const auto stacked = [&](std::int64_t rows, std::int64_t columns) {
        auto shape = stack;
        shape.push_back(rows);
        shape.push_back(columns);
        return shape;
      };
      const auto m = between(1, 90), n = between(1, 90), k = between(0, 120);
      const auto a = make(type, stacked(m, k));
      const auto b = coin() ? make(i8, stacked(k, n)) : make(i8, {k, n});
      const auto c = make(i32, stacked(m, n), drawn::few);
      const bool adds = coin();
      gemm op{.a = a.view(), .b = b.view(), .beta = adds ? 1 : 0};
      if (adds || coin()) op.c = c.view();
      if (!op.c && coin()) op.new_c = layout::column_major;
      expect_products(run(test_executor(), op), a, b, k, adds ? &c : nullptr);
      if (op.c) expect_gaps_untouched(c);
    }
  }
}

TEST_P(integer_gemm, computes_what_cublas_takes) {
  for (const auto& [m, n, k] : {std::array{64L, 128L, 256L}, std::array{4L, 8L, 12L},
                                std::array{36L, 20L, 68L}, std::array{128L, 128L, 1024L}}) {
    for (const bool by_columns : {false, true}) {
      const auto a = make_contiguous(i8, {m, k});
      const auto b = by_columns ? elements(runtime(), stream(), generator(), i8,
                                           {.shape = {k, n}, .order = {1, 0}})
                                : make_contiguous(i8, {k, n});
      expect_products(run(test_executor(), gemm{.a = a.view(), .b = b.view()}), a, b, k, nullptr);
    }
  }
}

TEST_P(integer_gemm, adds_long_sums_of_the_largest_numbers) {
  const std::int64_t k = 40000;
  for (const auto type : {i8, u8}) {
    auto a = make_contiguous(type, {3, k});
    auto b = make_contiguous(i8, {k, 2});
    if (type == u8) {
      a.set(std::vector<std::uint8_t>{255});
    } else {
      a.set(std::vector<std::int8_t>{-128});
    }
    b.set(std::vector<std::int8_t>{-128});
    expect_products(run(test_executor(), gemm{.a = a.view(), .b = b.view()}), a, b, k, nullptr);
  }
}

TEST_P(integer_gemm, without_products_is_the_previous_c_or_zero) {
  const auto a = make_contiguous(i8, {5, 0});
  const auto b = make_contiguous(i8, {0, 7});
  const auto c = make(i32, {5, 7});
  gemm op{.a = a.view(), .b = b.view(), .c = c.view(), .beta = 1};
  expect_products(run(test_executor(), op), a, b, 0, &c);
  op.beta = 0;
  expect_products(run(test_executor(), op), a, b, 0, nullptr);
  expect_gaps_untouched(c);
  op.c = {};
  expect_products(run(test_executor(), op), a, b, 0, nullptr);
  EXPECT_TRUE(run(test_executor(), gemm{.a = make_contiguous(i8, {0, 3}).view(),
                                        .b = make_contiguous(i8, {3, 4}).view()})
                  .empty());
}

TEST_P(integer_gemm, is_a_step_of_a_program) {
  const auto a = make_contiguous(u8, {9, 16});
  const auto b = make_contiguous(i8, {16, 12});
  program_builder p;
  const auto x = p.input("x");
  const auto y = p.add("y", gemm{.a = x, .b = b.view()});
  const auto product = std::move(p).build({y});
  for (int round = 0; round < 6; ++round) {
    const auto results = run(test_executor(), sluice::run{product, {a.view()}});
    expect_products(results[0], a, b, 16, nullptr);
  }
}

TEST_P(integer_gemm, refusals) {
  const auto zeros = [&](element_type type, const extents& shape) {
    return make_contiguous(type, shape).view();
  };
  const auto refuse = [&](const std::string& text, const auto& spoil) {
    gemm op{.a = zeros(u8, {3, 4}), .b = zeros(i8, {4, 5})};
    spoil(op);
    EXPECT_TRUE(throws(errc::invalid_argument, text, [&] { (void)run(test_executor(), op); }));
  };
  refuse("b: is of type u8, but needs i8 for a of type u8", [&](gemm& g) {
    g.b = zeros(u8, {4, 5});
  });
  refuse("b: is of type f32", [&](gemm& g) { g.b = zeros(f32, {4, 5}); });
  refuse("b: is of type i8", [&](gemm& g) { g.a = zeros(f32, {3, 4}); });
  refuse("a: is of type i16", [&](gemm& g) { g.a = zeros(i16, {3, 4}); });
  refuse("alpha: is 2, but products of integers take 1", [](gemm& g) { g.alpha = 2; });
  refuse("alpha: is 0, but products of integers take 1", [](gemm& g) { g.alpha = 0; });
  refuse("alpha: ", [](gemm& g) { g.alpha = 0.5; });
  refuse("beta: is -1, but products of integers take 0 or 1", [](gemm& g) { g.beta = -1; });
  refuse("type: is f32", [](gemm& g) { g.type = f32; });
  refuse("c: is f32", [&](gemm& g) { g.c = zeros(f32, {3, 5}); });
  refuse("bias: is given, but a and b are integers", [&](gemm& g) { g.bias = zeros(i32, {5}); });
  refuse("residual: is given, but", [&](gemm& g) { g.residual = zeros(i32, {3, 5}); });
  refuse("activation: is given, but", [](gemm& g) { g.activation = activation::relu; });
}

INSTANTIATE_TEST_SUITE_P(devices, integer_gemm, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
