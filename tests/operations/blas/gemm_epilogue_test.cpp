// SPDX-License-Identifier: Apache-2.0
// Products with a bias, an activation or a residual.
#include "tests/operations/elementwise/activation_reference.hpp"
#include "tests/operations/elementwise/elements.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/operations/bulk.hpp>
#include <sluice/operations/program.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using enum element_type;

/// Where a bias differs.
enum class bias_kind { none, columns, row_of_columns, rows, one, one_by_one };

constexpr std::array all_biases{bias_kind::none, bias_kind::columns, bias_kind::row_of_columns,
                                bias_kind::rows, bias_kind::one,     bias_kind::one_by_one};

extents shape_of(bias_kind kind, std::int64_t m, std::int64_t n) {
  switch (kind) {
    case bias_kind::columns:
      return {n};
    case bias_kind::row_of_columns:
      return {1, n};
    case bias_kind::rows:
      return {m, 1};
    case bias_kind::one:
      return {1};
    default:
      return {1, 1};
  }
}

/// A product and its epilogue.
struct epilogue_case {
  element_type type = f32;
  element_type c_type = f32;
  extents stack{};
  std::int64_t m = 1;
  std::int64_t n = 1;
  std::int64_t k = 1;
  bias_kind bias = bias_kind::none;
  sluice::activation activation = sluice::activation::none;
  bool has_residual = false;
};

class gemm_epilogue : public elementwise_test {
 protected:
  [[nodiscard]] bool is_gpu() { return runtime().device().id().kind != device_kind::host; }

  /// How far C may be from what it should be.
  /// @param argument that of the activation
  /// @param terms the sum of the magnitudes that are added for the argument
  [[nodiscard]] long double bound_of(const epilogue_case& c, long double argument,
                                     long double terms, long double residual) {
    const bool is_16_bit = size_of(c.c_type) == 2;
    const auto computed = unit_of(c.type == f64 || c.type == c128 ? f64 : f32);
    const auto stored = unit_of(c.c_type);
    const auto value = std::abs(activated(c.activation, argument));
    // No activation is steeper than 1.25.
    long double error = 1.25L * terms * computed * static_cast<long double>(c.k + 8);
    error += 8 * computed * std::max({std::abs(argument), value, 1.0L});
    if (is_16_bit && is_gpu()) error += (1.25L * terms + value) * stored;
    if (is_16_bit && is_gpu() && c.activation == activation::gelu_tanh) {
      error += std::abs(argument) / 1000;
    }
    const auto result = value + std::abs(residual);
    return error + (result + error) * stored + unit_at(c.c_type, 0) / 2;
  }

  void expect_epilogue(const epilogue_case& c) {
    SCOPED_TRACE(std::string(to_string(c.type)) + " to " + std::string(to_string(c.c_type)) + ", " +
                 to_string(c.stack) + " times " + std::to_string(c.m) + " x " +
                 std::to_string(c.n) + " x " + std::to_string(c.k) + ", bias " +
                 std::to_string(static_cast<int>(c.bias)) + ", activation " +
                 std::to_string(static_cast<int>(c.activation)) + ", residual " +
                 std::to_string(static_cast<int>(c.has_residual)));
    const auto stacked = [&](std::int64_t rows, std::int64_t columns) {
      auto shape = c.stack;
      shape.push_back(rows);
      shape.push_back(columns);
      return shape;
    };
    const auto a = make(c.type, stacked(c.m, c.k));
    const auto b = coin() ? make(c.type, stacked(c.k, c.n)) : make(c.type, {c.k, c.n});
    const auto previous = make(c.c_type, stacked(c.m, c.n));
    const auto bias = make(c.c_type, shape_of(c.bias, c.m, c.n));
    const auto residual = make(c.c_type, stacked(c.m, c.n));
    const double alpha = between(0, 9) == 0 ? 0 : coin() ? 1 : -0.75;
    const double beta = coin() ? 0.5 : 0;
    const bool has_output = beta != 0 || coin();
    gemm op{.a = a.view(),
            .b = b.view(),
            .alpha = alpha,
            .beta = beta,
            .activation = c.activation,
            .new_c = coin() ? layout::row_major : layout::column_major};
    if (has_output) op.c = previous.view();
    if (!has_output) op.type = c.c_type;
    if (c.bias != bias_kind::none) op.bias = bias.view();
    if (c.has_residual) op.residual = residual.view();
    const auto result = run(test_executor(), op);
    EXPECT_EQ(result.type(), c.c_type);
    EXPECT_EQ(result.shape(), stacked(c.m, c.n));
    expect_each(result, [&](const extents& index, const number& computed) {
      auto left = index;
      auto right = index;
      number sum = 0;
      long double terms = 0;
      const auto add = [&](const number& term) {
        sum += term;
        terms += std::abs(term);
      };
      for (std::int64_t l = 0; l < c.k && alpha != 0; ++l) {
        left[index.size() - 1] = l;
        right[index.size() - 2] = l;
        add(a[left] * b[right] * static_cast<long double>(alpha));
      }
      if (beta != 0) add(previous[index] * static_cast<long double>(beta));
      if (c.bias != bias_kind::none) add(bias[index]);
      const auto added = c.has_residual ? residual[index] : number(0);
      const auto wanted =
          is_complex_type(c.c_type) ? sum + added : activated(c.activation, sum.real()) + added;
      const auto argument = is_complex_type(c.c_type) ? std::abs(sum) : sum.real();
      const auto bound = bound_of(c, argument, 2 * terms, std::abs(added));
      return std::abs(computed - wanted) <= bound ? ::testing::AssertionSuccess()
                                                  : ::testing::AssertionFailure()
                                                        << computed.real() << '+' << computed.imag()
                                                        << "i is not " << wanted.real() << '+'
                                                        << wanted.imag() << "i, bound " << bound;
    });
    if (has_output) expect_gaps_untouched(previous);
  }

  extents random_stack() {
    extents stack;
    for (auto rank = between(0, 2); rank > 0; --rank) stack.push_back(between(1, 3));
    return stack;
  }
};

TEST_P(gemm_epilogue, computes_all_types_and_functions) {
  constexpr std::array types{std::pair{f16, f16},  std::pair{f16, f32}, std::pair{bf16, bf16},
                             std::pair{bf16, f32}, std::pair{f32, f32}, std::pair{f64, f64}};
  for (const auto& [type, c_type] : types) {
    for (const auto function : all_activations) {
      for (const auto bias : all_biases) {
        for (const bool has_residual : {false, true}) {
          expect_epilogue({.type = type,
                           .c_type = c_type,
                           .stack = random_stack(),
                           .m = between(1, 30),
                           .n = between(1, 30),
                           .k = between(0, 40),
                           .bias = bias,
                           .activation = function,
                           .has_residual = has_residual});
        }
      }
    }
  }
}

TEST_P(gemm_epilogue, computes_complex_sums) {
  for (const auto type : {c64, c128}) {
    for (const auto bias : all_biases) {
      for (const bool has_residual : {false, true}) {
        expect_epilogue({.type = type,
                         .c_type = type,
                         .stack = random_stack(),
                         .m = between(1, 20),
                         .n = between(1, 20),
                         .k = between(0, 20),
                         .bias = bias,
                         .has_residual = has_residual});
      }
    }
  }
}

TEST_P(gemm_epilogue, computes_large_matrices_without_gaps) {
  // Whole vectors and blocks, and what is left over of them.
  constexpr std::int64_t k = 16;
  for (const auto type : {f16, bf16, f32}) {
    for (const auto& [m, n] : {std::pair{32, 384}, std::pair{35, 257}, std::pair{1, 1024}}) {
      const auto a = make_contiguous(type, {m, k});
      const auto b = make_contiguous(type, {k, n});
      const auto bias = make_contiguous(type, {n});
      const auto residual = make_contiguous(type, {m, n});
      std::vector<long double> sums;
      std::vector<long double> terms;
      for_each_index({m, n}, [&](const extents& i) {
        sums.push_back(bias[{i[1]}].real());
        terms.push_back(std::abs(sums.back()));
        for (std::int64_t l = 0; l < k; ++l) {
          const auto term = a[{i[0], l}].real() * b[{l, i[1]}].real();
          sums.back() += term;
          terms.back() += std::abs(term);
        }
      });
      for (const auto function : {activation::relu, activation::gelu, activation::gelu_tanh}) {
        const epilogue_case c{.type = type, .c_type = type, .k = k, .activation = function};
        gemm op{.a = a.view(), .b = b.view(), .bias = bias.view(), .activation = function};
        for (const bool has_residual : {false, true}) {
          if (has_residual) op.residual = residual.view();
          expect_each(run(test_executor(), op), [&, columns = n](const extents& i,
                                                                 const number& computed) {
            const auto position = static_cast<std::size_t>(i[0] * columns + i[1]);
            const auto added = has_residual ? residual[i].real() : 0;
            const auto wanted = activated(function, sums[position]) + added;
            const auto bound = bound_of(c, sums[position], terms[position], added);
            return std::abs(computed.real() - wanted) <= bound
                       ? ::testing::AssertionSuccess()
                       : ::testing::AssertionFailure() << computed.real() << " is not " << wanted;
          });
        }
      }
    }
  }
}

TEST_P(gemm_epilogue, without_products_computes_the_rest) {
  for (const auto type : {f16, bf16, f32, f64}) {
    for (const std::int64_t k : {0, 3}) {
      for (const double beta : {0.0, 1.0, -0.5}) {
        const auto nan = make_contiguous(type, {5, k});
        const auto c = make(type, {5, 7});
        const auto bias = make(type, {5, 1});
        const auto residual = make(type, {5, 7});
        const gemm op{.a = nan.view(),
                      .b = make_contiguous(type, {k, 7}).view(),
                      .c = c.view(),
                      .alpha = 0,
                      .beta = beta,
                      .bias = bias.view(),
                      .activation = activation::relu,
                      .residual = residual.view()};
        expect_each(run(test_executor(), op), [&](const extents& i, const number& computed) {
          const auto sum = static_cast<long double>(beta) * c[i].real() + bias[i].real();
          const auto wanted = std::max(sum, 0.0L) + residual[i].real();
          return std::abs(computed.real() - wanted) <= 4 * unit_of(type)
                     ? ::testing::AssertionSuccess()
                     : ::testing::AssertionFailure() << computed.real() << " is not " << wanted;
        });
      }
    }
  }
}

TEST_P(gemm_epilogue, takes_empty_matrices) {
  for (const auto& shape : {extents{0, 7}, extents{7, 0}, extents{0, 0}}) {
    const auto a = make_contiguous(f32, {shape[0], 4});
    const auto b = make_contiguous(f32, {4, shape[1]});
    const auto bias = make_contiguous(f32, {shape[1]});
    const auto residual = make_contiguous(f32, shape);
    const auto result = run(test_executor(), gemm{.a = a.view(),
                                                  .b = b.view(),
                                                  .bias = bias.view(),
                                                  .activation = activation::gelu,
                                                  .residual = residual.view()});
    EXPECT_EQ(result.shape(), shape);
  }
}

TEST_P(gemm_epilogue, keeps_nan_and_infinity) {
  constexpr auto nan = std::numeric_limits<float>::quiet_NaN();
  constexpr auto infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> rows{nan, infinity, -infinity, 1, -1, 0};
  // As wide as the vectors of kernels, and not.
  for (const std::int64_t n : {3, 64}) {
    for (const auto type : {f16, bf16, f32, f64}) {
      for (const auto function : all_activations) {
        SCOPED_TRACE(std::string(to_string(type)) + ", activation " +
                     std::to_string(static_cast<int>(function)));
        auto a = make_contiguous(type, {6, 1});
        auto ones = make_contiguous(type, {1, n});
        auto zeros = make_contiguous(type, {n});
        const auto set = [&](elements& e, const std::vector<float>& values) {
          if (type == f32) return e.set(values);
          if (type == f64) return e.set(std::vector<double>(values.begin(), values.end()));
          if (type == f16) return e.set(std::vector<sluice::f16>(values.begin(), values.end()));
          return e.set(std::vector<sluice::bf16>(values.begin(), values.end()));
        };
        set(a, rows);
        set(ones, {1});
        set(zeros, {0});
        const auto y = run(
            test_executor(),
            gemm{.a = a.view(), .b = ones.view(), .bias = zeros.view(), .activation = function});
        expect_each(y, [&](const extents& i, const number& computed) {
          const auto x = rows[static_cast<std::size_t>(i[0])];
          const auto wanted = activated(function, x);
          // cuBLASLt's ReLU of NaN is 0.
          const bool may_lose_nan = is_gpu() && function == activation::relu;
          const bool is_right = std::isnan(wanted) ? std::isnan(computed.real()) ||
                                                         (may_lose_nan && computed.real() == 0)
                                : std::isinf(wanted) ? computed.real() == wanted
                                                     : std::abs(computed.real() - wanted) <= 0.01L;
          return is_right ? ::testing::AssertionSuccess()
                          : ::testing::AssertionFailure()
                                << "of " << x << ": " << computed.real() << " is not " << wanted;
        });
      }
    }
  }
}

TEST_P(gemm_epilogue, takes_a_residual_that_is_repeated) {
  const auto a = make_contiguous(f32, {4, 3, 5});
  const auto b = make_contiguous(f32, {5, 6});
  const auto row = make_contiguous(f32, {1, 1, 6});
  const auto matrix = make_contiguous(f32, {1, 3, 6});
  const auto plain = run(test_executor(), gemm{.a = a.view(), .b = b.view()});
  for (const auto* const residual : {&row, &matrix}) {
    const auto sums = run(
        test_executor(),
        gemm{.a = a.view(), .b = b.view(), .residual = residual->view().broadcast_to({4, 3, 6})});
    const auto bytes = contents_of(plain);
    expect_each(sums, [&](const extents& i, const number& computed) {
      const auto position = static_cast<std::size_t>((i[0] * 3 + i[1]) * 6 + i[2]) * sizeof(float);
      const auto wanted = number_at(f32, &bytes[position]) + (*residual)[i];
      return std::abs(computed - wanted) <= 8 * unit_of(f32) ? ::testing::AssertionSuccess()
                                                             : ::testing::AssertionFailure();
    });
  }
}

TEST_P(gemm_epilogue, gives_the_same_bits_again) {
  for (const auto type : {f16, f32}) {
    const auto a = make_contiguous(type, {192, 512});
    const auto b = make_contiguous(type, {512, 128});
    const auto bias = make_contiguous(type, {128});
    const auto result = [&] {
      return contents_of(run(test_executor(), gemm{.a = a.view(),
                                                   .b = b.view(),
                                                   .bias = bias.view(),
                                                   .activation = activation::gelu_tanh}));
    };
    EXPECT_TRUE(result() == result());
  }
}

TEST_P(gemm_epilogue, is_a_step_of_a_program) {
  for (const auto type : {f16, f32}) {
    const auto x = make_contiguous(type, {24, 32});
    const auto w = make_contiguous(type, {16, 32});
    const auto b = make_contiguous(type, {16});
    program_builder p;
    const auto input = p.input("x");
    const auto bias = p.input("bias");
    const auto y = p.add(
        "y",
        gemm{.a = input, .b = w.view().transposed(), .bias = bias, .activation = activation::silu});
    const program layer = std::move(p).build({y});
    const auto alone = run(test_executor(), gemm{.a = x.view(),
                                                 .b = w.view().transposed(),
                                                 .bias = b.view(),
                                                 .activation = activation::silu});
    // A program that runs often may be captured as a graph.
    for (int round = 0; round < 8; ++round) {
      const auto results = run(test_executor(), sluice::run{layer, {x.view(), b.view()}});
      ASSERT_EQ(results.size(), 1U);
      EXPECT_TRUE(contents_of(results[0]) == contents_of(alone)) << round;
    }
  }
}

TEST_P(gemm_epilogue, may_be_sent_beside_plain_products) {
  const auto values = [&](const std::vector<float>& all) {
    return tensor(upload(runtime(), stream(), all)).reshape({2, 2});
  };
  const auto a = values({1, 2, 3, -4});
  const auto b = values({0, 1, 1, 0});
  const auto ones = values({1, 1, 1, 1});
  bulk many;
  for (int i = 0; i < 20; ++i) {
    many.add(gemm{.a = a, .b = b});
    many.add(gemm{.a = a, .b = b, .activation = activation::relu, .residual = ones});
  }
  pending<bulk_results> answer(waking_alarm());
  test_executor().submit(std::move(many), {}, answer.token());
  const auto results = wait(answer).results;
  ASSERT_EQ(results.size(), 40U);
  for (std::size_t i = 0; i < results.size(); ++i) {
    ASSERT_FALSE(results[i].failure);
    EXPECT_EQ(download(results[i].value.reshape({-1}).as<float>(), stream()),
              i % 2 == 0 ? (std::vector<float>{2, 1, -4, 3}) : (std::vector<float>{3, 2, 1, 4}));
  }
}

TEST_P(gemm_epilogue, refusals) {
  const auto floats = [&](const extents& shape) {
    return make_contiguous(f32, shape).view();
  };
  const gemm valid{.a = floats({3, 4}), .b = floats({4, 5})};
  const auto refuse = [&](const std::string& text, const auto& spoil) {
    auto op = valid;
    spoil(op);
    EXPECT_TRUE(throws(errc::invalid_argument, text, [&] { (void)run(test_executor(), op); }));
  };
  for (const auto& shape : {extents{3}, extents{4}, extents{5, 1}, extents{1, 3}, extents{3, 5},
                            extents{1, 1, 5}, extents{0}}) {
    refuse("bias: has the shape " + to_string(shape) + ", but needs [5], [1, 5], [3, 1] or one",
           [&](gemm& g) { g.bias = floats(shape); });
  }
  refuse("bias: is of type f64", [&](gemm& g) { g.bias = make_contiguous(f64, {5}).view(); });
  refuse("residual: is of type f16", [&](gemm& g) {
    g.residual = make_contiguous(f16, {3, 5}).view();
  });
  for (const auto& shape : {extents{5}, extents{5, 3}, extents{1, 3, 5}}) {
    refuse("residual: has the shape " + to_string(shape) + ", but c has [3, 5]",
           [&](gemm& g) { g.residual = floats(shape); });
  }
  refuse("activation: 7 is not a valid value",
         [](gemm& g) { g.activation = static_cast<activation>(7); });
  refuse("activation: is given, but c is of type c64", [&](gemm& g) {
    g.a = make_contiguous(c64, {3, 4}).view();
    g.b = make_contiguous(c64, {4, 5}).view();
    g.activation = activation::relu;
  });
  refuse("c: ", [&](gemm& g) { g.residual = g.c = floats({3, 5}); });
  refuse("c: ", [&](gemm& g) {
    const auto memory = floats({4, 5});
    g.c = memory.slice(0, 0, 3);
    g.bias = memory.select(0, 2);
  });
  // Also of results without elements, which are not added to.
  refuse("bias: has the shape [4]", [&](gemm& g) {
    g.a = floats({0, 4});
    g.bias = floats({4});
  });
}

INSTANTIATE_TEST_SUITE_P(devices, gemm_epilogue, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
