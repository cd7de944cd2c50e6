// SPDX-License-Identifier: Apache-2.0
// Steps behind products and convolutions that are computed with them.
#include "tests/operations/dnn/conv2d_reference.hpp"
#include "tests/operations/program/programs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

double gelu_of(double x) {
  return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0)));
}

class epilogue_steps : public programs {
 protected:
  static constexpr std::int64_t m = 5;
  static constexpr std::int64_t k = 17;
  static constexpr std::int64_t n = 9;

  [[nodiscard]] bool on_host() { return runtime().device().id().kind == device_kind::host; }

  /// The products of `stack` pairs of matrices.
  std::vector<double> products(const tensor& a, const tensor& b, std::size_t stack = 1) {
    const auto x = values(a);
    const auto y = values(b);
    std::vector<double> c(stack * m * n);
    for (std::size_t i = 0; i < c.size(); ++i) {
      const auto row = i / n;
      for (std::size_t j = 0; j < k; ++j) {
        c[i] += static_cast<double>(x[row * k + j]) * static_cast<double>(y[j * n + i % n]);
      }
    }
    return c;
  }
  void expect_near(const tensor& found, const std::vector<double>& wanted, double bound) {
    const auto elements = values(alone(cast{.x = found, .type = element_type::f32}));
    ASSERT_EQ(elements.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(elements[i], wanted[i], bound) << "element " << i;
    }
  }
  /// Runs a program on `inputs`. So many steps are computed together with others.
  tensor result_of(const program& what, const std::vector<tensor>& inputs, std::size_t together) {
    const auto known = await_kernels(what, inputs);
    EXPECT_EQ(known.fused_steps, together) << what.text();
    return results_of({what, {inputs.begin(), inputs.end()}})[0];
  }

  void SetUp() override {
    programs::SetUp();
    if (IsSkipped()) return;
    a_ = numbers({m, k});
    b_ = numbers({k, n});
  }

  tensor a_;
  tensor b_;
};

TEST_P(epilogue_steps, of_a_product_are_a_bias_then_a_function_then_a_residual) {
  const auto residual = numbers({m, n});
  const auto added = values(residual);
  // The bias: its shape, and which of its numbers is added to an element.
  const std::vector<std::pair<extents, std::function<std::size_t(std::size_t)>>> biases{
      {{n},
       [](std::size_t i) {
         return i % n;
       }},
      {{1, n},
       [](std::size_t i) {
         return i % n;
       }},
      {{m, 1},
       [](std::size_t i) {
         return i / n;
       }},
      {{1}, [](std::size_t) {
         return 0;
       }}};
  const std::vector<std::pair<unary_function, double (*)(double)>> functions{
      {unary_function::relu,
       [](double x) {
         return std::max(x, 0.0);
       }},
      {unary_function::gelu, gelu_of},
      {unary_function::silu,
       [](double x) {
         return x / (1 + std::exp(-x));
       }},
      {unary_function::sigmoid,
       [](double x) {
         return 1 / (1 + std::exp(-x));
       }},
      {unary_function::tanh, [](double x) {
         return std::tanh(x);
       }}};
  for (const auto& [shape, number_of] : biases) {
    for (const auto& [function, value_of] : functions) {
      const auto bias = numbers(shape);
      program_builder p;
      auto y = p.add(gemm{.a = p.input("a"), .b = p.input("b")});
      y = p.add(add(p.input("bias"), y));
      y = p.add(unary{.function = function, .x = y});
      y = p.add(add(y, p.input("residual")));
      auto wanted = products(a_, b_);
      const auto numbers_of_bias = values(bias);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        wanted[i] = value_of(wanted[i] + numbers_of_bias[number_of(i)]) + added[i];
      }
      const auto found = result_of(std::move(p).build({y}), {a_, b_, bias, residual}, 4);
      expect_near(found, wanted, 1e-4);
    }
  }
}

TEST_P(epilogue_steps, have_the_result_of_the_operation_without_scratch) {
  if (!on_host()) GTEST_SKIP() << "the workspace of a product depends on the library";
  const auto bias = numbers({n});
  program_builder p;
  const auto y = p.add(relu(p.add(add(p.add(gemm{.a = p.input("a"), .b = b_}), bias))));
  const auto program = std::move(p).build({y});
  const auto known = prepare_of({program, {tensor_spec::of(a_)}});
  EXPECT_EQ(known.scratch_bytes, 0U);
  const auto found = results_of({program, {a_}})[0];
  const auto alone_result =
      alone(gemm{.a = a_, .b = b_, .bias = bias, .activation = activation::relu});
  EXPECT_EQ(bits(found), bits(alone_result));
}

TEST_P(epilogue_steps, of_16_bits_are_rounded_once) {
  const auto half = [&](const tensor& x) {
    return alone(cast{.x = x, .type = element_type::f16});
  };
  const auto a = half(a_);
  const auto b = half(b_);
  const auto bias = half(numbers({n}));
  program_builder p;
  const auto c = p.add(gemm{.a = p.input("a"), .b = p.input("b")});
  const auto y = p.add(gelu(p.add(add(c, p.input("bias")))));
  const auto f32 = [&](const tensor& x) {
    return alone(cast{.x = x, .type = element_type::f32});
  };
  auto wanted = products(f32(a), f32(b));
  const auto added = values(f32(bias));
  double largest = 1;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    largest = std::max(largest, std::abs(wanted[i] + added[i % n]));
    wanted[i] = gelu_of(wanted[i] + added[i % n]);
  }
  // A GPU may round twice.
  const double bound = (on_host() ? 0.51 : 1.6) * std::ldexp(largest, -10);
  expect_near(result_of(std::move(p).build({y}), {a, b, bias}, 3), wanted, bound);
}

TEST_P(epilogue_steps, of_a_product_of_8_bits_are_those_of_a_product) {
  const auto converted = [&](const tensor& x, element_type type) {
    return alone(cast{.x = x, .type = type});
  };
  const auto a = converted(a_, element_type::e4m3);
  const auto b = converted(b_, element_type::e5m2);
  const auto scale = numbers({1});
  const auto bias = numbers({n});
  const auto residual = numbers({m, n});
  program_builder p;
  auto y = p.add(scaled_gemm{.a = p.input("a"),
                             .b = p.input("b"),
                             .b_scale = p.input("scale"),
                             .type = element_type::f32});
  y = p.add(gelu(p.add(add(y, p.input("bias")))));
  y = p.add(add(p.input("residual"), y));
  auto wanted = products(converted(a, element_type::f32), converted(b, element_type::f32));
  const double factor = values(scale)[0];
  const auto added = values(bias);
  const auto last = values(residual);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    wanted[i] = gelu_of(wanted[i] * factor + added[i % n]) + last[i];
  }
  const auto found = result_of(std::move(p).build({y}), {a, b, scale, bias, residual}, 4);
  expect_near(found, wanted, 1e-4);
}

TEST_P(epilogue_steps, of_a_stack_of_products_have_a_bias_for_all) {
  const auto a = numbers({3, m, k});
  const auto bias = numbers({1, 1, n});
  program_builder p;
  const auto c = p.add(gemm{.a = p.input("a"), .b = b_});
  const auto y = p.add(add(c, p.input("bias")));
  auto wanted = products(a, b_, 3);
  const auto added = values(bias);
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += added[i % n];
  expect_near(result_of(std::move(p).build({y}), {a, bias}, 2), wanted, 1e-4);
}

TEST_P(epilogue_steps, of_a_convolution_are_a_bias_then_a_residual_then_a_function) {
  auto generator = make_generator();
  conv2d_description d;
  d.x = {2, 3, 8, 7};
  d.w = {4, 3, 3, 3};
  d.has_bias = true;
  d.has_residual = true;
  auto problem = random_conv2d(d, generator);
  const auto on_device = [&](const std::vector<float>& elements, const extents& shape) {
    return run(test_executor(), sluice::upload{.values = {elements, shape}});
  };
  const auto x = on_device(problem.x, d.x);
  const auto w = on_device(problem.w, d.w);
  const auto residual = on_device(problem.residual, output_shape(d));
  for (const auto& shape : {extents{4, 1, 1}, extents{1, 4, 1, 1}}) {
    program_builder p;
    auto y = p.add(conv2d{.x = p.input("x"), .w = w});
    y = p.add(add(y, on_device(problem.bias, shape)));
    y = p.add(add(p.input("residual"), y));
    y = p.add(relu(y));
    auto wanted = conv2d_reference(problem);
    for (auto& element : wanted) element = std::max(element, 0.0);
    expect_near(result_of(std::move(p).build({y}), {x, residual}, 4), wanted, 1e-4);
  }
}

// Activations keep the order of the dimensions, so nothing between the convolutions is copied.
TEST_P(epilogue_steps, of_a_chain_of_channels_last_convolutions_need_no_copies) {
  auto generator = make_generator();
  const auto on_device = [&](const std::vector<float>& elements, const extents& shape) {
    return alone(sluice::upload{.values = {elements, shape}});
  };
  const auto channels_last = [&](const std::vector<float>& elements, const extents& shape) {
    const auto copy = alone(strided_copy{.x = on_device(elements, shape).permute({0, 2, 3, 1})});
    return copy.permute({0, 3, 1, 2});
  };
  conv2d_description d{.x = {2, 3, 8, 7}, .w = {4, 3, 3, 3}};
  d.has_bias = true;
  d.activation = activation::silu;
  const auto first = random_conv2d(d, generator);
  d = {.x = output_shape(d), .w = {5, 4, 3, 3}};
  d.has_bias = d.has_residual = true;
  d.activation = activation::relu;
  auto second = random_conv2d(d, generator);
  const auto hidden = conv2d_reference(first);
  second.x.assign(hidden.begin(), hidden.end());
  const auto build = [&](bool fuse, const auto& place) {
    program_builder p;
    const auto add_layer = [&](const program_value& x, const conv2d_problem& problem) {
      const auto filters = problem.description.w[0];
      const auto y = p.add(conv2d{.x = x, .w = place(problem.w, problem.description.w)});
      return p.add(add(y, on_device(problem.bias, {filters, 1, 1})));
    };
    const auto x = p.add(silu(add_layer(p.input("x"), first)));
    const auto y = p.add(relu(p.add(add(add_layer(x, second), p.input("residual")))));
    return std::move(p).build({y}, {.fuse = fuse});
  };
  const auto inputs = [&](const auto& place) {
    return std::vector{place(first.x, first.description.x),
                       place(second.residual, output_shape(second.description))};
  };
  const auto last = inputs(channels_last);
  const auto y = result_of(build(true, channels_last), last, 7);
  expect_near(y, conv2d_reference(second), 1e-3);
  EXPECT_EQ(y.strides(), last[1].strides());
  const auto one_by_one = build(false, channels_last);
  EXPECT_EQ(results_of({one_by_one, {last.begin(), last.end()}})[0].strides(), y.strides());
  // No more commands than for images in the order (C, H, W), which need no copies either.
  const auto commands = [&](bool fuse, const auto& place) {
    std::vector<tensor_spec> specs;
    for (const auto& input : inputs(place)) specs.push_back(tensor_spec::of(input));
    return prepare_of({build(fuse, place), specs}).commands;
  };
  for (const bool fuse : {true, false}) {
    EXPECT_EQ(commands(fuse, channels_last), commands(fuse, on_device)) << fuse;
  }
}

TEST_P(epilogue_steps, are_computed_alone_where_the_operation_cannot_compute_them) {
  const auto bias = numbers({n});
  const auto stacked = numbers({3, 1, 1});
  const auto a = numbers({3, m, k});
  const auto build = [&](bool fuse, int variant) {
    program_builder p;
    const auto c = p.add(gemm{.a = p.input("a"), .b = b_});
    switch (variant) {
      case 0:  // another step needs the product
        return std::move(p).build({p.add(gemm{.a = c, .b = p.add(relu(c)).transposed()})},
                                  {.fuse = fuse});
      case 1:  // an output is the product
        return std::move(p).build({p.add(relu(c)), c}, {.fuse = fuse});
      case 2:  // a number for each product of a stack
        return std::move(p).build({p.add(add(c, stacked))}, {.fuse = fuse});
      case 3:  // the product is repeated
        return std::move(p).build({p.add(add(c.slice(1, 0, 1), c))}, {.fuse = fuse});
      case 4:  // another function
        return std::move(p).build({p.add(exp(c))}, {.fuse = fuse});
      default:  // a sum of the product with itself
        return std::move(p).build({p.add(add(c, c))}, {.fuse = fuse});
    }
  };
  for (int variant = 0; variant < 6; ++variant) {
    SCOPED_TRACE(variant);
    const auto fused = build(true, variant);
    const auto found = result_of(fused, {a}, 0);
    EXPECT_EQ(bits(found), bits(results_of({build(false, variant), {a}})[0]));
  }
  program_builder p;
  const auto y = p.add(relu(p.add(gemm{.a = p.input("a"), .b = b_})));
  EXPECT_EQ(
      prepare_of({std::move(p).build({y}, {.fuse = false}), {tensor_spec::of(a)}}).fused_steps, 0U);
}

// The function comes first, so the vector is no bias.
TEST_P(epilogue_steps, keep_their_order) {
  const auto bias = numbers({n});
  program_builder p;
  const auto c = p.add(relu(p.add(gemm{.a = p.input("a"), .b = b_})));
  const auto y = p.add(add(c, bias));
  auto wanted = products(a_, b_);
  const auto added = values(bias);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    wanted[i] = std::max(wanted[i], 0.0) + added[i % n];
  }
  expect_near(result_of(std::move(p).build({y}), {a_}, 2), wanted, 1e-4);
}

// A product reads its operands before a step overwrites them, also with an epilogue.
TEST_P(epilogue_steps, read_operands_that_are_overwritten) {
  const auto build = [&](bool fuse) {
    program_builder p;
    const auto x = p.input("x");
    const auto c = p.add("c", gemm{.a = x, .b = p.input("w")});
    const auto next = p.add("next", affine{.x = x, .factor = 2});
    return std::move(p).build({next, p.add("y", relu(c))}, {.fuse = fuse});
  };
  const auto build_in_place = [&](bool fuse) {
    program_builder p;
    const auto c = p.add(gemm{.a = p.input("x"), .b = p.input("w")});
    return std::move(p).build({p.add(relu(c))}, {.fuse = fuse});
  };
  const auto w = numbers({m, m});
  const auto x = numbers({3, m});
  const auto wanted = bits(results_of({build(false), {x, w}})[1]);
  for (const bool fuse : {false, true}) {
    const auto copy = [&] {
      return alone(affine{.x = x, .factor = 1});
    };
    const auto first = copy();
    sluice::run request{.what = build(fuse), .inputs = {first, w}};
    request.outputs = {first, operand()};
    EXPECT_EQ(bits(results_of(std::move(request))[1]), wanted);
    const auto second = copy();
    request = {.what = build_in_place(fuse), .inputs = {second, w}};
    request.outputs = {second};
    EXPECT_EQ(bits(results_of(std::move(request))[0]), wanted);
  }
}

// The operation writes its result before it adds the residual or the bias.
TEST_P(epilogue_steps, update_what_they_add) {
  const auto w = numbers({6, m, 1, 1});
  const auto x = numbers({1, m, 3, 3});
  const auto update = [&](bool fuse, bool convolves, const tensor& y) {
    program_builder p;
    const auto added = p.input("added");
    const auto product = convolves ? p.add("product", conv2d{.x = x, .w = w})
                                   : p.add("product", gemm{.a = a_, .b = b_});
    const auto program = std::move(p).build({p.add("y", add(product, added))}, {.fuse = fuse});
    const auto updated = alone(affine{.x = y, .factor = 1});
    sluice::run request{.what = program, .inputs = {updated}};
    request.outputs = {updated};
    return bits(results_of(std::move(request))[0]);
  };
  const auto residual = numbers({m, n});
  EXPECT_EQ(update(true, false, residual), update(false, false, residual));
  const auto of_images = numbers({1, 6, 3, 3});
  EXPECT_EQ(update(true, true, of_images), update(false, true, of_images));
}

INSTANTIATE_TEST_SUITE_P(devices, epilogue_steps, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
