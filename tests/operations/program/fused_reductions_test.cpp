// SPDX-License-Identifier: Apache-2.0
// Reductions behind element-wise steps are computed together with them, and are right.
#include "tests/operations/program/programs.hpp"
#include "tests/support/compute_sanitizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

constexpr std::array kinds{reduction::sum,     reduction::mean,
                           reduction::max,     reduction::min,
                           reduction::product, reduction::any,
                           reduction::all,     reduction::l1,
                           reduction::l2,      reduction::sum_of_squares,
                           reduction::log_sum, reduction::log_sum_exp,
                           reduction::variance};

bool is_exact(reduction kind) {
  return kind == reduction::max || kind == reduction::min || kind == reduction::any ||
         kind == reduction::all;
}

/// What a result must be.
struct expectation {
  double value = 0;
  double magnitude = 0;  ///< of the numbers whose rounding counts
};

/// Reduces elements in extended precision.
expectation reduced(reduction kind, const std::vector<double>& elements) {
  const auto count = static_cast<long double>(elements.size());
  long double sum = 0;
  long double magnitudes = 0;
  long double squares = 0;
  long double product = 1;
  long double largest = -std::numeric_limits<long double>::infinity();
  long double smallest = -largest;
  long double zeros = 0;
  for (const long double x : elements) {
    sum += x;
    magnitudes += std::abs(x);
    squares += x * x;
    product *= x;
    largest = std::max(largest, x);
    smallest = std::min(smallest, x);
    if (x == 0) zeros += 1;
  }
  const auto result = [](long double value, long double magnitude) {
    return expectation{static_cast<double>(value), static_cast<double>(magnitude)};
  };
  switch (kind) {
    case reduction::sum:
      return result(sum, magnitudes);
    case reduction::mean:
      return result(sum / count, magnitudes / count);
    case reduction::max:
      return result(largest, 0);
    case reduction::min:
      return result(smallest, 0);
    case reduction::product:
      return result(product, std::abs(product));
    case reduction::any:
      return result(zeros < count ? 1 : 0, 0);
    case reduction::all:
      return result(zeros == 0 ? 1 : 0, 0);
    case reduction::l1:
      return result(magnitudes, magnitudes);
    case reduction::l2:
      return result(std::sqrt(squares), std::sqrt(squares));
    case reduction::sum_of_squares:
      return result(squares, squares);
    case reduction::log_sum:
      return result(std::log(sum), std::abs(std::log(sum)) + magnitudes / std::abs(sum));
    case reduction::log_sum_exp: {
      long double total = 0;
      for (const long double x : elements) total += std::exp(x - largest);
      return result(largest + std::log(total), std::abs(largest) + std::log(total) + 1);
    }
    default: {
      long double deviations = 0;
      for (const long double x : elements) deviations += (x - sum / count) * (x - sum / count);
      return result(deviations / count, deviations / count + squares / count);
    }
  }
}

/// Half of the distance of numbers of a type near 1.
double rounding_of(element_type type) {
  switch (type) {
    case element_type::f16:
      return 0x1p-11;
    case element_type::bf16:
      return 0x1p-8;
    case element_type::f32:
      return 0x1p-24;
    default:
      return 0x1p-53;
  }
}

class fused_reductions : public programs {
 protected:
  [[nodiscard]] bool on_host() { return runtime().device().id().kind == device_kind::host; }
  /// A GPU compiles each kernel, so it takes a sample.
  [[nodiscard]] bool is_left_out() {
    return !on_host() && number(0, under_compute_sanitizer() ? 9 : 2) != 0;
  }
  std::int64_t number(std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution<std::int64_t>(first, last)(generator_);
  }
  /// The elements in row-major order.
  std::vector<double> elements(const tensor& x) {
    return get(alone(cast{.x = x, .type = element_type::f64})).to_vector<double>();
  }
  std::vector<std::byte> bytes(const tensor& x) {
    const auto all = get(alone(strided_copy{.x = x}));
    const auto* const first = static_cast<const std::byte*>(all.data().get());
    return {first, first + all.bytes()};
  }
  /// Checks how many steps are computed together.
  void expect_fused(const program& p, const std::vector<tensor>& inputs, std::size_t steps) {
    const auto found = await_kernels(p, inputs);
    EXPECT_EQ(found.fused_steps, found.not_fused.empty() ? steps : 0)
        << p.text() << found.not_fused;
    EXPECT_TRUE(found.not_fused.empty() || !on_host()) << found.not_fused;
  }

  /// Whether `y` is the reduction of `x`, whose elements are exact.
  bool is_reduction(const reduce& op, const tensor& x, const tensor& y) {
    const auto shape = x.shape();
    std::vector<bool> is_reduced(shape.size(), !op.axes);
    if (op.axes) {
      for (const auto a : *op.axes) {
        is_reduced[static_cast<std::size_t>(a < 0 ? a + static_cast<std::int64_t>(shape.size())
                                                  : a)] = true;
      }
    }
    const auto all = elements(x);
    const auto results = elements(y);
    std::vector<std::vector<double>> parts(results.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::size_t part = 0;
      auto rest = i;
      std::size_t step = 1;
      for (std::size_t d = shape.size(); d-- > 0;) {
        const auto extent = static_cast<std::size_t>(shape[d]);
        if (!is_reduced[d]) {
          part += rest % extent * step;
          step *= extent;
        }
        rest /= extent;
      }
      parts.at(part).push_back(all[i]);
    }
    const double rounding = rounding_of(y.type());
    const double least = y.type() == element_type::f16 ? 0x1p-24 : 1e-37;  // is not normal
    for (std::size_t i = 0; i < results.size(); ++i) {
      const auto expected = reduced(op.kind, parts[i]);
      const double error = std::abs(results[i] - expected.value);
      const double bound = is_exact(op.kind) ? 0
                                             : 2 * rounding * std::abs(expected.value) +
                                                   1e-12 * expected.magnitude + least;
      const bool has_no_value = std::isnan(expected.value) && std::isnan(results[i]);
      const double largest = y.type() == element_type::f16 ? 65504 : 3e38;
      const bool overflows = y.type() != element_type::f64 && std::abs(expected.value) > largest &&
                             std::isinf(results[i]);
      if (error <= bound || has_no_value || overflows) continue;
      last_error_ = "result " + std::to_string(i) + " is " + std::to_string(results[i]) +
                    " instead of " + std::to_string(expected.value);
      return false;
    }
    return true;
  }
  std::mt19937_64 generator_ = make_generator();
  std::string last_error_;
};

constexpr std::array real_types{element_type::f32, element_type::f16, element_type::bf16,
                                element_type::f64};

TEST_P(fused_reductions, are_right_for_all_kinds_axes_and_types) {
  const int rounds = on_host() ? 300 : under_compute_sanitizer() ? 6 : 40;
  std::size_t fused = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto rank = static_cast<std::size_t>(number(1, 4));
    extents shape;
    for (std::size_t d = 0; d < rank; ++d) {
      constexpr std::array<std::int64_t, 8> some{1, 2, 3, 7, 16, 31, 64, 300};
      shape.push_back(some[static_cast<std::size_t>(number(0, rank > 2 ? 5 : 7))]);
    }
    reduce op{.kind = kinds[static_cast<std::size_t>(number(0, kinds.size() - 1))]};
    op.keep_dims = number(0, 1) == 0;
    if (number(0, 3) != 0) {
      op.axes = extents();
      for (std::size_t d = 0; d < rank; ++d) {
        if (number(0, 1) == 0) op.axes->push_back(static_cast<std::int64_t>(d));
      }
    }
    const auto type = real_types[static_cast<std::size_t>(number(0, 3))];
    // A tensor, perhaps with its dimensions in another order or with gaps, and a row.
    auto a = alone(cast{.x = numbers(shape), .type = type});
    const auto how = number(0, 3);
    if (how == 0 && rank > 1) a = alone(strided_copy{.x = a.transposed()}).transposed();
    if (how == 1) {  // every second element along a dimension
      const auto d = number(0, static_cast<std::int64_t>(rank) - 1);
      auto wide = shape;
      wide[static_cast<std::size_t>(d)] *= 2;
      a = alone(cast{.x = numbers(wide), .type = type})
              .slice(static_cast<int>(d), 1, wide[static_cast<std::size_t>(d)], 2);
    }
    const auto row = alone(cast{.x = numbers({shape[rank - 1]}), .type = type});
    const auto x = alone(affine{.x = alone(add(a, row)), .factor = 0.75, .offset = 0.125});

    const auto build = [&](bool fuse) {
      program_builder p;
      const auto sum = p.add("sum", add(p.input("a"), p.input("row")));
      auto last = op;
      last.x = p.add("scaled", affine{.x = sum, .factor = 0.75, .offset = 0.125});
      return std::move(p).build({p.add("reduced", last)}, {.fuse = fuse});
    };
    const auto together = build(true);
    const auto known = await_kernels(together, {a, row});
    if (!known.not_fused.empty()) GTEST_SKIP() << known.not_fused;
    fused += known.fused_steps == 3 ? 1 : 0;
    auto y = results_of({together, {a, row}})[0];
    op.x = x;
    const auto apart = build(false);
    EXPECT_EQ(prepare_of({apart, {tensor_spec::of(a), tensor_spec::of(row)}}).fused_steps, 0U);
    const auto one_by_one = results_of({apart, {a, row}})[0];
    ASSERT_EQ(y.shape(), one_by_one.shape());
    ASSERT_EQ(y.type(), one_by_one.type());
    ASSERT_EQ(y.strides(), one_by_one.strides());
    if (is_exact(op.kind)) {
      ASSERT_EQ(bytes(y), bytes(one_by_one));
    }
    ASSERT_TRUE(is_reduction(op, x, y)) << last_error_ << "\n" << together.text();
    // A second time, the same bits.
    ASSERT_EQ(bytes(results_of({together, {a, row}})[0]), bytes(y));
    // Into memory with gaps.
    if (y.rank() == 0) continue;
    auto wide = y.shape();
    wide[wide.size() - 1] = 2 * wide[wide.size() - 1] + 1;
    const auto target = numbers(wide);
    const auto typed = alone(cast{.x = target, .type = y.type()});
    const auto slice =
        typed.slice(static_cast<int>(y.rank()) - 1, 1, 1 + 2 * y.shape()[y.rank() - 1], 2);
    y = results_of({together, {a, row}, {slice}})[0];
    ASSERT_TRUE(is_reduction(op, x, y)) << last_error_ << "\n" << together.text();
  }
  EXPECT_GT(fused, static_cast<std::size_t>(rounds / 3));
}

TEST_P(fused_reductions, of_integers_have_equal_bits) {
  for (const auto type : {element_type::i32, element_type::u8, element_type::i64}) {
    for (const auto kind : {reduction::sum, reduction::product, reduction::l1,
                            reduction::sum_of_squares, reduction::min, reduction::all}) {
      for (const auto axis : {0, 1}) {
        if (is_left_out()) continue;
        program_builder p;
        const auto x = p.input("x");
        const auto whole = p.add("whole", cast{.x = x, .type = type});
        const auto last = p.add("last", maximum(whole, whole));
        const program program = std::move(p).build(
            {p.add("reduced", reduce{.x = last, .kind = kind, .axes = extents{axis}})});
        const auto input = alone(affine{.x = numbers({70, 90}), .factor = 1000});
        expect_fused(program, {input}, 3);
        const auto one = alone(cast{.x = input, .type = type});
        EXPECT_EQ(bytes(results_of({program, {input}})[0]),
                  bytes(alone(reduce{.x = one, .kind = kind, .axes = extents{axis}})));
      }
    }
  }
}

TEST_P(fused_reductions, of_complex_numbers) {
  program_builder p;
  const auto z = p.add("z", cast{.x = p.input("x"), .type = element_type::c64});
  const program program = std::move(p).build({p.add(
      "sum",
      reduce{.x = p.add("negative", negate(z)), .kind = reduction::mean, .axes = extents{1}})});
  const auto x = numbers({40, 500});
  expect_fused(program, {x}, 3);
  const auto expected =
      elements(alone(reduce{.x = x, .kind = reduction::mean, .axes = extents{1}}));
  const auto y = results_of({program, {x}})[0];
  ASSERT_EQ(y.type(), element_type::c64);
  const auto parts = get(y);
  std::vector<float> words(2 * expected.size());
  ASSERT_EQ(parts.bytes(), words.size() * sizeof(float));
  std::memcpy(words.data(), parts.data().get(), parts.bytes());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(words[2 * i], -expected[i], 1e-6);
    EXPECT_EQ(words[2 * i + 1], 0);
  }
}

// Elements of 16 bits are rounded before they are added.
TEST_P(fused_reductions, take_elements_that_are_rounded_to_their_type) {
  for (const auto type : {element_type::f16, element_type::bf16}) {
    for (const auto axis : {0, 1}) {
      program_builder p;
      const auto half = p.add("half", cast{.x = p.input("x"), .type = type});
      const auto third = p.add("third", affine{.x = half, .factor = 1.0 / 3});
      const auto wide = p.add("wide", cast{.x = third, .type = element_type::f32});
      const reduce op{.kind = reduction::sum, .axes = extents{axis}};
      auto last = op;
      last.x = wide;
      const program program = std::move(p).build({p.add("sum", last)});
      const auto x = numbers({300, 400});
      expect_fused(program, {x}, 4);
      const auto y = results_of({program, {x}})[0];
      const auto one_half = alone(cast{.x = x, .type = type});
      const auto rounded = alone(affine{.x = one_half, .factor = 1.0 / 3});
      const auto exact = alone(
          affine{.x = alone(cast{.x = one_half, .type = element_type::f32}), .factor = 1.0 / 3});
      EXPECT_TRUE(is_reduction(op, rounded, y)) << last_error_;
      // What is not rounded has other sums.
      EXPECT_FALSE(is_reduction(op, exact, y));
    }
  }
}

// The check finds a wrong element, a wrong axis and an element that is missing.
TEST_P(fused_reductions, are_told_from_wrong_ones) {
  for (const auto kind : kinds) {
    if (kind == reduction::any || kind == reduction::all) continue;
    const auto x =
        alone(affine{.x = alone(sluice::abs(numbers({1, 50}))), .factor = 1, .offset = 1});
    const reduce op{.kind = kind, .axes = extents{1}};
    auto alone_op = op;
    alone_op.x = x;
    const auto y = alone(alone_op);
    EXPECT_TRUE(is_reduction(op, x, y)) << last_error_;
    const auto moved = alone(affine{.x = x, .factor = 1.0001});
    EXPECT_FALSE(is_reduction(op, moved, y)) << static_cast<int>(kind);
    if (is_exact(kind)) continue;
    EXPECT_FALSE(is_reduction(op, x.slice(1, 0, 49), y)) << static_cast<int>(kind);
  }
}

// The first element of a column is far from the others.
TEST_P(fused_reductions, of_long_columns_round_as_little_as_others) {
  if (!on_host()) GTEST_SKIP() << "threads of a GPU add few elements each";
  std::vector<double> values(std::size_t{7000} * 8);
  for (auto& value : values) value = static_cast<double>(number(0, 1 << 20)) * 0x1p-20;
  std::fill_n(values.begin(), 8, 1e3);
  const auto a = alone(sluice::upload{.values = {values, extents{7000, 8}}});
  reduce op{.kind = reduction::variance, .axes = extents{0}};
  program_builder p;
  auto last = op;
  last.x = p.add("scaled", affine{.x = p.add("positive", abs(p.input("a"))), .factor = 0.5});
  const auto together = std::move(p).build({p.add("reduced", last)});
  expect_fused(together, {a}, 3);
  ASSERT_TRUE(
      is_reduction(op, alone(affine{.x = a, .factor = 0.5}), results_of({together, {a}})[0]))
      << last_error_;
}

TEST_P(fused_reductions, of_many_elements_are_cut_into_parts) {
  struct sample {
    extents shape;
    extents axes;
  };
  for (const auto& [shape, axes] :
       {sample{{3, 500'009}, {1}}, sample{{500'000, 3}, {0}}, sample{{1'000'003}, {0}},
        sample{{40, 30, 900}, {0, 2}}, sample{{9, 40'000}, {0}}, sample{{2048, 256}, {0}},
        sample{{20'000, 60}, {1}}, sample{{1, 8, 90'000}, {0, 1, 2}}}) {
    for (const auto kind : {reduction::sum, reduction::max, reduction::variance}) {
      if (is_left_out()) continue;
      program_builder p;
      const auto first = p.add("first", sqrt(p.add("size", sluice::abs(p.input("x")))));
      const auto doubled = p.add("doubled", add(first, first));
      const reduce op{.kind = kind, .axes = axes};
      auto last = op;
      last.x = doubled;
      const program program = std::move(p).build({p.add("reduced", last)});
      const auto x = numbers(shape);
      expect_fused(program, {x}, 4);
      const auto root = alone(sqrt(alone(sluice::abs(x))));
      const auto y = results_of({program, {x}})[0];
      EXPECT_TRUE(is_reduction(op, alone(add(root, root)), y)) << last_error_;
      for (int again = 0; again < 3; ++again) {
        ASSERT_EQ(bytes(results_of({program, {x}})[0]), bytes(y));
      }
    }
  }
}

TEST_P(fused_reductions, keep_infinities_nan_and_signs_of_zero) {
  constexpr auto infinity = std::numeric_limits<float>::infinity();
  constexpr std::array<float, 6> special{NAN, infinity, -infinity, 0.0F, -0.0F, 1.0F};
  std::vector<float> all;
  // All pairs, beside enough zeros of a sign for a row of several vectors.
  for (const float a : special) {
    for (const float b : special) {
      for (int i = 0; i < 70; ++i) all.push_back(i == 5 ? a : i == 68 ? b : -0.0F);
    }
  }
  const auto input = alone(sluice::upload{.values = {all, extents{36, 70}}});
  for (const auto kind : kinds) {
    for (const auto& axes : {extents{1}, extents{0}}) {
      for (const auto type : {element_type::f32, element_type::f16}) {
        if (is_left_out()) continue;
        program_builder p;
        const auto x = p.add("x", cast{.x = p.input("input"), .type = type});
        const auto same = p.add("same", minimum(x, x));
        const program program =
            std::move(p).build({p.add("y", reduce{.x = same, .kind = kind, .axes = axes})});
        expect_fused(program, {input}, 3);
        const auto one = alone(cast{.x = input, .type = type});
        const auto expected = alone(reduce{.x = one, .kind = kind, .axes = axes});
        const auto y = results_of({program, {input}})[0];
        if (is_exact(kind) && on_host()) {
          EXPECT_EQ(bytes(y), bytes(expected)) << static_cast<int>(kind);
        }
        const auto numbers_of_y = elements(y);
        const auto numbers_expected = elements(expected);
        for (std::size_t i = 0; i < numbers_of_y.size(); ++i) {
          const double a = numbers_of_y[i];
          const double b = numbers_expected[i];
          EXPECT_TRUE((std::isnan(a) && std::isnan(b)) ||
                      (a == b && std::signbit(a) == std::signbit(b)) || std::abs(a - b) < 1e-6)
              << static_cast<int>(kind) << ": " << a << " and " << b;
        }
      }
    }
  }
}

TEST_P(fused_reductions, end_at_outputs_and_at_values_that_other_steps_read) {
  const auto x = numbers({50, 60});
  const auto build = [](auto add_last) {
    program_builder p;
    const auto a = p.add("a", exp(p.input("x")));
    const auto b = p.add("b", negate(a));
    return std::move(p).build(add_last(p, b));
  };
  const auto sum = [](program_value v) {
    return reduce{.x = v, .axes = extents{1}};
  };
  using outputs = std::vector<program_value>;
  // The chain is an output.
  expect_fused(build([&](program_builder& p, program_value b) {
                 return outputs{b, p.add("sum", sum(b))};
               }),
               {x}, 2);
  // Two steps read it.
  expect_fused(build([&](program_builder& p, program_value b) {
                 return outputs{p.add("sum", sum(b)), p.add("other", sum(b))};
               }),
               {x}, 2);
  // A part of it is read.
  expect_fused(build([&](program_builder& p, program_value b) {
                 return outputs{p.add("sum", sum(b.slice(0, 0, 20)))};
               }),
               {x}, 2);
  // It is read with its dimensions in another order.
  expect_fused(build([&](program_builder& p, program_value b) {
                 return outputs{p.add("sum", sum(b.transposed()))};
               }),
               {x}, 3);
  // Positions are found alone.
  expect_fused(build([&](program_builder& p, program_value b) {
                 return outputs{p.add("first", reduce{.x = b, .kind = reduction::argmax})};
               }),
               {x}, 2);
  // What follows a reduction is another group.
  expect_fused(build([&](program_builder& p, program_value b) {
                 const auto y = p.add("sum", sum(b));
                 return outputs{p.add("root", sqrt(p.add("positive", sluice::abs(y))))};
               }),
               {x}, 5);
}

TEST_P(fused_reductions, may_have_no_elements) {
  program_builder p;
  const auto x = p.input("x");
  const auto b = p.add("b", negate(p.add("a", exp(x))));
  const program program = std::move(p).build({p.add("sum", reduce{.x = b, .axes = extents{1}})});
  for (const auto& shape : {extents{3, 0}, extents{0, 3}, extents{1, 1}}) {
    const auto input = numbers(shape);
    const auto y = results_of({program, {input}})[0];
    EXPECT_EQ(y.shape(), extents{shape[0]});
    if (shape[1] == 0) {
      EXPECT_EQ(values(y), std::vector<float>(3, 0.0F));
    }
  }
}

// A result must not be written where elements of other results are still read.
TEST_P(fused_reductions, may_be_given_the_memory_of_an_input) {
  for (const auto& shape : {extents{1, 700}, extents{700, 1}}) {
    program_builder p;
    const auto x = p.input("x");
    const auto root = p.add("root", sqrt(p.add("size", sluice::abs(x))));
    const program program = std::move(p).build({p.add(
        "sum", reduce{.x = root, .axes = extents{shape[0] == 1 ? 0 : 1}, .keep_dims = true})});
    const auto input = numbers(shape);
    const auto expected = alone(sqrt(alone(sluice::abs(input))));
    const auto y = results_of({program, {input}, {input}})[0];
    EXPECT_EQ(y, input);
    EXPECT_EQ(bits(y), bits(expected));
  }
}

TEST_P(fused_reductions, are_captured_and_launched_together) {
  program_builder p;
  const auto x = p.input("x", per_request);
  const auto root = p.add("root", sqrt(p.add("size", sluice::abs(x))));
  const auto largest =
      p.add("largest", reduce{.x = root, .kind = reduction::max, .axes = extents{1}});
  const auto more = p.add("more", affine{.x = x, .factor = 2, .offset = 1});
  const auto sum = p.add("sum", reduce{.x = more, .kind = reduction::l2, .axes = extents{1}});
  const program program = std::move(p).build({largest, sum}, {.max_in_batch = 8});
  std::vector<tensor> inputs;
  for (int i = 0; i < 32; ++i) inputs.push_back(numbers({1, 3000}));
  expect_fused(program, {inputs[0]}, 5);
  const auto expect_right = [&](const tensors& results, const tensor& input) {
    const auto one = alone(sqrt(alone(sluice::abs(input))));
    EXPECT_EQ(bits(results[0]),
              bits(alone(reduce{.x = one, .kind = reduction::max, .axes = extents{1}})));
    const reduce op{.kind = reduction::l2, .axes = extents{1}};
    EXPECT_TRUE(is_reduction(op, alone(affine{.x = input, .factor = 2, .offset = 1}), results[1]))
        << last_error_;
  };
  for (int round = 0; round < 4; ++round) {
    std::vector<pending<tensors>> answers;
    for (const auto& input : inputs) {
      answers.push_back(submit(test_executor(), sluice::run{program, {input}}));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) expect_right(wait(answers[i]), inputs[i]);
  }
  // One at a time, a GPU captures them.
  for (const auto& input : inputs) expect_right(results_of({program, {input}}), input);
}

INSTANTIATE_TEST_SUITE_P(devices, fused_reductions, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
