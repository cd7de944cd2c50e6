// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit floating-point numbers with scales.
#include "tests/operations/elementwise/activation_reference.hpp"
#include "tests/operations/elementwise/elements.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/operations/bulk.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/scaled_gemm.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using enum element_type;

constexpr std::array results{f16, bf16, f32};

/// A product and its epilogue.
struct scaled_case {
  element_type a_type = e4m3;
  element_type b_type = e4m3;
  element_type c_type = bf16;
  extents stack{};
  std::int64_t m = 1;
  std::int64_t n = 1;
  std::int64_t k = 1;
  bool suits_tensor_cores = false;  ///< the matrices lie as those of a GPU take them
  extents bias{};
  sluice::activation activation = sluice::activation::none;
  bool has_residual = false;
};

std::string text_of(const scaled_case& c) {
  return std::string(to_string(c.a_type)) + " times " + std::string(to_string(c.b_type)) + " to " +
         std::string(to_string(c.c_type)) + ", " + to_string(c.stack) + " times " +
         std::to_string(c.m) + " x " + std::to_string(c.n) + " x " + std::to_string(c.k) +
         ", bias " + to_string(c.bias) + ", activation " +
         std::to_string(static_cast<int>(c.activation)) + ", residual " +
         std::to_string(static_cast<int>(c.has_residual));
}

class scaled_products : public elementwise_test {
 protected:
  [[nodiscard]] bool is_gpu() { return runtime().device().id().kind != device_kind::host; }

  /// How far C may be from what it should be.
  /// @param argument that of the activation
  /// @param terms the sum of the magnitudes that are added for the argument
  [[nodiscard]] long double bound_of(const scaled_case& c, long double argument, long double terms,
                                     long double residual) {
    const bool is_16_bit = size_of(c.c_type) == 2;
    const auto stored = unit_of(c.c_type);
    const auto value = std::abs(activated(c.activation, argument));
    const auto tensor_cores = is_gpu() && c.k % 16 == 0 ? 0x1p-8L : 0;
    // No activation is steeper than 1.25.
    long double error =
        1.25L * terms * (unit_of(f32) * static_cast<long double>(c.k + 12) + tensor_cores);
    error += 8 * unit_of(f32) * std::max({std::abs(argument), value, 1.0L});
    const bool has_epilogue = !c.bias.empty() || c.activation != activation::none || c.has_residual;
    if (is_16_bit && is_gpu() && has_epilogue) error += (1.25L * terms + value) * stored;
    if (is_16_bit && is_gpu() && c.activation == activation::gelu_tanh) {
      error += std::abs(argument) / 1000;
    }
    return error + (value + std::abs(residual) + error) * stored + unit_at(c.c_type, 0) / 2;
  }

  elements make_factor(element_type type, const extents& shape, bool suits_tensor_cores,
                       bool by_columns) {
    if (!suits_tensor_cores) return make(type, shape);
    strided_layout layout{.shape = shape};
    for (std::size_t d = 0; d < shape.size(); ++d) {
      layout.order.push_back(static_cast<std::int64_t>(d));
    }
    if (by_columns) std::swap(layout.order[shape.size() - 1], layout.order[shape.size() - 2]);
    return {runtime(), stream(), generator(), type, layout};
  }
  elements make_scale() {
    const std::array shapes{extents{}, extents{1}, extents{1, 1}};
    return make(f32, shapes[static_cast<std::size_t>(between(0, 2))], drawn::wide);
  }
  extents random_stack() {
    extents stack;
    for (auto rank = between(0, 2); rank > 0; --rank) stack.push_back(between(1, 3));
    return stack;
  }

  void expect_product(const scaled_case& c) {
    SCOPED_TRACE(text_of(c));
    const auto stacked = [&](std::int64_t rows, std::int64_t columns) {
      auto shape = c.stack;
      shape.push_back(rows);
      shape.push_back(columns);
      return shape;
    };
    const bool repeats_b = coin();
    const auto a = make_factor(c.a_type, stacked(c.m, c.k), c.suits_tensor_cores, false);
    const auto b = make_factor(c.b_type, repeats_b ? extents{c.k, c.n} : stacked(c.k, c.n),
                               c.suits_tensor_cores, true);
    const auto previous = make_factor(c.c_type, stacked(c.m, c.n), c.suits_tensor_cores, false);
    const auto residual = make_factor(c.c_type, stacked(c.m, c.n), c.suits_tensor_cores, false);
    const auto bias = make(c.c_type, c.bias);
    const auto a_scale = make_scale();
    const auto b_scale = make_scale();
    const double alpha = between(0, 9) == 0 ? 0 : coin() ? 1 : -0.75;
    const double beta = coin() ? 0.5 : 0;
    const bool has_output = beta != 0 || coin();
    scaled_gemm op{.a = a.view(),
                   .b = b.view(),
                   .alpha = alpha,
                   .beta = beta,
                   .activation = c.activation,
                   .new_c = coin() ? layout::row_major : layout::column_major};
    long double factor = static_cast<long double>(alpha);
    if (coin()) {
      op.a_scale = a_scale.view();
      factor *= a_scale[op.a_scale.value().shape()].real();
    }
    if (coin()) {
      op.b_scale = b_scale.view();
      factor *= b_scale[op.b_scale.value().shape()].real();
    }
    if (has_output) op.c = previous.view();
    if (!has_output && (c.c_type != bf16 || coin())) op.type = c.c_type;
    if (!c.bias.empty()) op.bias = bias.view();
    if (c.has_residual) op.residual = residual.view();
    const auto result = run(test_executor(), op);
    EXPECT_EQ(result.type(), c.c_type);
    EXPECT_EQ(result.shape(), stacked(c.m, c.n));
    expect_each(result, [&](const extents& index, const number& computed) {
      auto left = index;
      auto right = index;
      long double sum = 0;
      long double terms = 0;
      const auto add = [&](long double term) {
        sum += term;
        terms += std::abs(term);
      };
      for (std::int64_t l = 0; l < c.k && alpha != 0; ++l) {
        left[index.size() - 1] = l;
        right[index.size() - 2] = l;
        add(a[left].real() * b[right].real() * factor);
      }
      if (beta != 0) add(previous[index].real() * static_cast<long double>(beta));
      if (!c.bias.empty()) add(bias[index].real());
      const auto added = c.has_residual ? residual[index].real() : 0;
      const auto wanted = activated(c.activation, sum) + added;
      const auto bound = bound_of(c, sum, 2 * terms, added);
      return std::abs(computed.real() - wanted) <= bound ? ::testing::AssertionSuccess()
                                                         : ::testing::AssertionFailure()
                                                               << computed.real() << " is not "
                                                               << wanted << ", bound " << bound;
    });
    if (has_output) expect_gaps_untouched(previous);
  }

  /// A vector of equal numbers.
  elements repeated(element_type type, const extents& shape, float value) {
    auto result = make_contiguous(type, shape);
    if (type == e4m3) result.set(std::vector{sluice::e4m3(value)});
    if (type == e5m2) result.set(std::vector{sluice::e5m2(value)});
    if (type == f32) result.set(std::vector{value});
    return result;
  }
};

TEST_P(scaled_products, computes_any_strides) {
  for (const auto a_type : float8_types) {
    for (const auto b_type : float8_types) {
      for (const auto c_type : results) {
        for (int round = 0; round < 8; ++round) {
          expect_product({.a_type = a_type,
                          .b_type = b_type,
                          .c_type = c_type,
                          .stack = random_stack(),
                          .m = between(1, 40),
                          .n = between(1, 40),
                          .k = between(0, 50)});
        }
      }
    }
  }
}

TEST_P(scaled_products, computes_what_tensor_cores_take) {
  constexpr std::array<std::array<std::int64_t, 3>, 6> sizes{
      {{16, 16, 16}, {48, 32, 64}, {64, 48, 128}, {1, 64, 32}, {31, 48, 32}, {16, 17, 48}}};
  for (const auto a_type : float8_types) {
    for (const auto b_type : float8_types) {
      for (const auto c_type : results) {
        for (const auto& [m, n, k] : sizes) {
          if (between(0, 2) == 0) continue;
          expect_product({.a_type = a_type,
                          .b_type = b_type,
                          .c_type = c_type,
                          .stack = coin() ? extents{} : extents{between(2, 3)},
                          .m = m,
                          .n = n,
                          .k = k,
                          .suits_tensor_cores = true});
        }
      }
    }
  }
}

TEST_P(scaled_products, computes_long_sums_and_many_blocks) {
  expect_product({.c_type = f16, .m = 7, .n = 9, .k = 5000});
  expect_product({.b_type = e5m2, .c_type = f32, .m = 300, .n = 280, .k = 131});
  expect_product({.a_type = e5m2, .m = 64, .n = 80, .k = 512, .suits_tensor_cores = true});
}

TEST_P(scaled_products, computes_epilogues) {
  for (const auto c_type : results) {
    for (const auto function : all_activations) {
      for (const bool suits : {false, true}) {
        for (const bool has_residual : {false, true}) {
          const auto step = suits ? 16 : 1;
          const auto m = between(1, suits ? 6 : 30) * step;
          const auto n = between(1, 5) * step;
          const std::array biases{extents{}, extents{n}, extents{1, n}, extents{m, 1}, extents{1}};
          expect_product({.a_type = coin() ? e4m3 : e5m2,
                          .c_type = c_type,
                          .stack = suits ? extents{} : random_stack(),
                          .m = m,
                          .n = n,
                          .k = between(1, 3) * step,
                          .suits_tensor_cores = suits,
                          .bias = biases[static_cast<std::size_t>(between(0, 4))],
                          .activation = function,
                          .has_residual = has_residual});
        }
      }
    }
  }
}

TEST_P(scaled_products, scale_before_they_round) {
  // The sums alone are beyond the range of f16.
  const auto scale = repeated(f32, {1}, 0x1p-10F);
  for (const auto a_type : float8_types) {
    for (const std::int64_t k : {63, 64}) {
      const auto a = repeated(a_type, {16, k}, 448);
      const auto b = repeated(e4m3, {32, k}, 448);
      const auto y = run(test_executor(), scaled_gemm{.a = a.view(),
                                                      .b = b.view().transposed(),
                                                      .a_scale = scale.view(),
                                                      .b_scale = scale.view(),
                                                      .type = f16});
      expect_elements(y, [&](const extents&) {
        return number(to_real_type(f16, static_cast<long double>(k) * 448 * 448 * 0x1p-20L));
      });
    }
  }
}

TEST_P(scaled_products, add_many_equal_numbers) {
  // Sums that neither 8 nor 16 bits hold to the end.
  const std::int64_t k = 8192;
  for (const auto type : float8_types) {
    const auto a = repeated(type, {16, k}, 1);
    const auto b = repeated(e4m3, {16, k}, 1);
    const auto y =
        run(test_executor(), scaled_gemm{.a = a.view(), .b = b.view().transposed(), .type = f32});
    expect_elements(y, [&](const extents&) { return number(static_cast<long double>(k)); });
  }
}

TEST_P(scaled_products, keep_nan_and_infinity) {
  for (const std::int64_t k : {3, 32}) {
    auto a = make_contiguous(e4m3, {16, k});
    auto b = make_contiguous(e5m2, {16, k});
    const auto bits = [&](std::uint8_t special) {
      std::vector<std::uint8_t> all(static_cast<std::size_t>(16 * k), 0x3c);  // 1.5 and 1
      all[0] = special;
      return all;
    };
    a.set(bits(0xff));  // NaN
    b.set(bits(0xfc));  // -infinity
    for (const auto c_type : results) {
      const auto y = run(test_executor(),
                         scaled_gemm{.a = a.view(), .b = b.view().transposed(), .type = c_type});
      expect_elements(y, [&](const extents& i) {
        if (i[0] == 0) return number(std::numeric_limits<long double>::quiet_NaN());
        if (i[1] == 0) return number(-std::numeric_limits<long double>::infinity());
        return number(1.5L * static_cast<long double>(k));
      });
    }
  }
}

TEST_P(scaled_products, keep_nan_with_a_scale_of_zero) {
  for (const std::int64_t size : {16, 128}) {
    auto a = make_contiguous(e4m3, {size, size});
    auto b = make_contiguous(e4m3, {size, size});
    std::vector<std::uint8_t> ones(static_cast<std::size_t>(size * size), 0x38);
    b.set(ones);
    ones[0] = 0xff;  // NaN
    a.set(ones);
    auto zero = make_contiguous(element_type::f32, {1});
    zero.set(std::vector<float>{0});
    const auto y = run(test_executor(), scaled_gemm{.a = a.view(),
                                                    .b = b.view().transposed(),
                                                    .a_scale = zero.view(),
                                                    .type = element_type::f32});
    expect_elements(y, [&](const extents& i) {
      return i[0] == 0 ? number(std::numeric_limits<long double>::quiet_NaN()) : number(0);
    });
  }
}

TEST_P(scaled_products, are_exact_for_all_numbers) {
  // Each product of two numbers alone.
  for (const auto a_type : float8_types) {
    for (const auto b_type : float8_types) {
      auto a = make_contiguous(a_type, {256, 1});
      auto b = make_contiguous(b_type, {1, 256});
      std::vector<std::uint8_t> patterns(256);
      for (std::size_t i = 0; i < 256; ++i) patterns[i] = static_cast<std::uint8_t>(i);
      a.set(patterns);
      b.set(patterns);
      const auto y = run(test_executor(), scaled_gemm{.a = a.view(), .b = b.view(), .type = f32});
      expect_each(y, [&](const extents& i, const number& computed) {
        const auto wanted = a[{i[0], 0}].real() * b[{0, i[1]}].real();
        const bool is_right =
            std::isnan(wanted) ? std::isnan(computed.real()) : computed.real() == wanted;
        return is_right ? ::testing::AssertionSuccess()
                        : ::testing::AssertionFailure() << computed.real() << " is not " << wanted;
      });
    }
  }
}

TEST_P(scaled_products, without_products_compute_the_rest) {
  for (const auto c_type : results) {
    for (const std::int64_t k : {0, 3}) {
      for (const double beta : {0.0, 1.0, -0.5}) {
        const auto c = make(c_type, {5, 7});
        const auto bias = make(c_type, {5, 1});
        scaled_gemm op{.a = make_contiguous(e4m3, {5, k}).view(),
                       .b = make_contiguous(e5m2, {k, 7}).view(),
                       .c = c.view(),
                       .alpha = 0,
                       .beta = beta};
        const bool has_bias = coin();
        if (has_bias) op.bias = bias.view();
        expect_each(run(test_executor(), op), [&](const extents& i, const number& computed) {
          const auto wanted =
              static_cast<long double>(beta) * c[i].real() + (has_bias ? bias[i].real() : 0);
          return std::abs(computed.real() - wanted) <= 4 * unit_of(c_type)
                     ? ::testing::AssertionSuccess()
                     : ::testing::AssertionFailure() << computed.real() << " is not " << wanted;
        });
      }
    }
  }
}

TEST_P(scaled_products, take_empty_matrices) {
  const auto scale = make_contiguous(f32, {1});
  for (const auto& shape : {extents{0, 7}, extents{7, 0}, extents{0, 0}}) {
    const auto result =
        run(test_executor(), scaled_gemm{.a = make_contiguous(e4m3, {shape[0], 4}).view(),
                                         .b = make_contiguous(e4m3, {4, shape[1]}).view(),
                                         .a_scale = scale.view(),
                                         .bias = make_contiguous(bf16, {shape[1]}).view(),
                                         .activation = activation::gelu});
    EXPECT_EQ(result.shape(), shape);
    EXPECT_EQ(result.type(), bf16);
  }
}

TEST_P(scaled_products, are_steps_of_a_program) {
  for (const std::int64_t k : {32, 33}) {
    const auto x = make_contiguous(e4m3, {48, k});
    const auto w = make_contiguous(e4m3, {16, k});
    const auto scale = make_contiguous(f32, {1});
    program_builder p;
    const auto input = p.input("x");
    const auto factor = p.input("scale");
    const auto y = p.add("y", scaled_gemm{.a = input,
                                          .b = w.view().transposed(),
                                          .a_scale = factor,
                                          .activation = activation::silu});
    const program layer = std::move(p).build({y});
    const auto alone = run(test_executor(), scaled_gemm{.a = x.view(),
                                                        .b = w.view().transposed(),
                                                        .a_scale = scale.view(),
                                                        .activation = activation::silu});
    // A program that runs often may be captured as a graph.
    for (int round = 0; round < 8; ++round) {
      const auto all = run(test_executor(), sluice::run{layer, {x.view(), scale.view()}});
      ASSERT_EQ(all.size(), 1U);
      EXPECT_TRUE(contents_of(all[0]) == contents_of(alone)) << round;
    }
  }
}

TEST_P(scaled_products, may_be_sent_beside_plain_products) {
  for (const std::int64_t k : {16, 5}) {
    const auto a = repeated(e4m3, {16, k}, 2);
    const auto ones = repeated(f32, {16, 16}, 1);
    const auto half = repeated(f32, {}, 0.5F);
    bulk many;
    for (int i = 0; i < 20; ++i) {
      many.add(gemm{.a = ones.view(), .b = ones.view()});
      many.add(scaled_gemm{
          .a = a.view(), .b = a.view().transposed(), .b_scale = half.view(), .type = f32});
    }
    pending<bulk_results> answer(waking_alarm());
    test_executor().submit(std::move(many), {}, answer.token());
    const auto answers = wait(answer).results;
    ASSERT_EQ(answers.size(), 40U);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      ASSERT_FALSE(answers[i].failure);
      expect_elements(answers[i].value, [&](const extents&) {
        return number(i % 2 == 0 ? 16.0L : 2.0L * static_cast<long double>(k));
      });
    }
  }
}

TEST_P(scaled_products, give_the_same_bits_again) {
  for (const std::int64_t k : {512, 511}) {
    const auto a = make_contiguous(e4m3, {192, k});
    const auto b = make_contiguous(e5m2, {128, k});
    const auto result = [&] {
      return contents_of(run(test_executor(), scaled_gemm{.a = a.view(),
                                                          .b = b.view().transposed(),
                                                          .activation = activation::gelu_tanh}));
    };
    EXPECT_TRUE(result() == result());
  }
}

TEST_P(scaled_products, refusals) {
  const auto zeros = [&](element_type type, const extents& shape) {
    return make_contiguous(type, shape).view();
  };
  const auto refuse = [&](const std::string& text, const auto& spoil) {
    scaled_gemm op{.a = zeros(e4m3, {3, 4}), .b = zeros(e5m2, {4, 5})};
    spoil(op);
    const auto before = runtime().statistics().launches;
    EXPECT_TRUE(throws(errc::invalid_argument, text, [&] { (void)run(test_executor(), op); }))
        << text;
    EXPECT_EQ(runtime().statistics().launches, before);
  };
  refuse("a: is of type f16, but scaled_gemm takes e4m3 and e5m2; cast", [&](scaled_gemm& g) {
    g.a = zeros(f16, {3, 4});
  });
  refuse("b: is of type i8", [&](scaled_gemm& g) { g.b = zeros(i8, {4, 5}); });
  refuse("a: has the shape [4], which is no matrix",
         [&](scaled_gemm& g) { g.a = zeros(e4m3, {4}); });
  refuse("b: has the shape [3, 5], but needs 4 rows", [&](scaled_gemm& g) {
    g.b = zeros(e4m3, {3, 5});
  });
  refuse("a_scale: is of type f16, but needs f32",
         [&](scaled_gemm& g) { g.a_scale = zeros(f16, {1}); });
  refuse("b_scale: has the shape [5], but needs one element",
         [&](scaled_gemm& g) { g.b_scale = zeros(f32, {5}); });
  refuse("b_scale: has the shape [0]", [&](scaled_gemm& g) { g.b_scale = zeros(f32, {0}); });
  refuse("type: is f64, but scaled_gemm computes f16, bf16 and f32",
         [](scaled_gemm& g) { g.type = f64; });
  refuse("type: is e4m3", [](scaled_gemm& g) { g.type = e4m3; });
  refuse("c: is e4m3", [&](scaled_gemm& g) { g.c = zeros(e4m3, {3, 5}); });
  refuse("c: is of type f32", [&](scaled_gemm& g) {
    g.c = zeros(f32, {3, 5});
    g.type = f16;
  });
  refuse("bias: is of type f32", [&](scaled_gemm& g) { g.bias = zeros(f32, {5}); });
  refuse("residual: has the shape", [&](scaled_gemm& g) { g.residual = zeros(bf16, {3, 4}); });
  refuse("alpha: ", [](scaled_gemm& g) { g.alpha = 1e300; });
  refuse("beta: ", [](scaled_gemm& g) { g.beta = 1e300; });
  refuse("c: ", [](scaled_gemm& g) { g.beta = 1; });
  // The error of `gemm` names the operation that takes these types.
  EXPECT_TRUE(throws(errc::invalid_argument, "scaled_gemm takes e4m3 and e5m2", [&] {
    (void)run(test_executor(), gemm{.a = zeros(e4m3, {3, 4}), .b = zeros(e4m3, {4, 5})});
  }));
}

INSTANTIATE_TEST_SUITE_P(devices, scaled_products, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
