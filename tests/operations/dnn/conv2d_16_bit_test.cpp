// SPDX-License-Identifier: Apache-2.0
// Convolutions of f16 and bf16.
#include "tests/operations/dnn/conv2d_reference.hpp"
#include "tests/operations/executing.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/convolution.hpp>
#include <sluice/operations/dnn.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/transfer.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <type_traits>
#include <vector>

namespace sluice::test {
namespace {

class conv2d_16_bits : public executor_test {
 protected:
  void SetUp() override {
    executor_test::SetUp();
    if (IsSkipped()) return;
    if (!has_convolutions(runtime().device().id().kind)) {
      GTEST_SKIP() << "this build has no dnn library for the device";
    }
  }

  /// Memory for images or filters: channels-last or not, and with other images between them or not.
  tensor memory(element_type type, const extents& shape) {
    const bool is_last = coin();
    const auto images = coin() ? 2 * shape[0] : shape[0];
    const auto all =
        run(test_executor(), fill{.value = 3,
                                  .shape = is_last ? extents{images, shape[2], shape[3], shape[1]}
                                                   : extents{images, shape[1], shape[2], shape[3]},
                                  .type = type});
    const auto view = is_last ? all.permute({0, 3, 1, 2}) : all;
    return view.slice(0, 0, images, images / std::max<std::int64_t>(shape[0], 1));
  }
  /// Random numbers of a type.
  tensor numbers(element_type type, const extents& shape) {
    const auto values = random_values<float>(generator_, element_count(shape));
    const auto x = run(test_executor(), sluice::upload{.values = {values, shape}});
    if (shape.size() != 4) return run(test_executor(), sluice::cast{.x = x, .type = type});
    return run(test_executor(), sluice::cast{.x = x, .y = memory(type, shape)});
  }
  std::vector<float> values(const tensor& t) {
    const auto result = std::make_shared<host_tensor>();
    const auto wide = run(test_executor(), sluice::cast{.x = t, .type = element_type::f32});
    (void)run(test_executor(), sluice::download{.x = wide, .target = result});
    return result->to_vector<float>();
  }
  /// @param d of a `conv2d`, a `convolution` or a `transposed_convolution`
  template <class Description>
  void expect_right(element_type type, const Description& d) {
    const auto shape = output_shape(d);
    const auto x = numbers(type, d.x);
    const auto w = numbers(type, d.w);
    const std::int64_t shift = coin() ? 1 : 0;
    const auto bias = numbers(type, {shape[1] + shift}).slice(0, shift, shape[1] + shift);
    const auto residual = numbers(type, shape);
    const auto y = run_with(d, {.x = x,
                                .w = w,
                                .bias = d.has_bias ? bias : tensor(),
                                .residual = d.has_residual ? residual : tensor(),
                                .y = coin() && shape.size() == 4 ? memory(type, shape) : tensor()});
    ASSERT_EQ(y.type(), type);
    ASSERT_EQ(y.shape(), shape);
    const convolution_problem problem{described(d), values(x), values(w), values(bias),
                                      values(residual)};
    const auto expected = convolution_reference(problem);
    auto products = problem;
    products.description.has_bias = false;
    products.description.has_residual = false;
    products.description.activation = activation::none;
    const auto sums = convolution_reference(products);
    const auto computed = values(y);
    // Half a unit in the last place for each of two roundings, and the sums in f32. No activation
    // is steeper than 1.25.
    constexpr double slope = 1.25;
    const double unit = type == element_type::f16 ? 0x1p-11 : 0x1p-8;
    const double sum_error = 1e-6 * static_cast<double>(terms(d)) + 0x1p-24;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto bound = 1.01 * unit * (std::abs(expected[i]) + slope * std::abs(sums[i])) +
                         slope * sum_error + 1e-6;
      ASSERT_LE(std::abs(computed[i] - expected[i]), bound)
          << to_string(type) << ", element " << i << ": " << computed[i] << " is not "
          << expected[i];
    }
  }
  [[nodiscard]] bool coin() { return (generator_() & 1U) != 0; }
  std::mt19937_64& generator() { return generator_; }

 private:
  struct operand_views {
    tensor x, w, bias, residual, y;
  };
  static const convolution_description& described(const convolution_description& d) { return d; }
  static convolution_description described(const conv2d_description& d) {
    return test::described(d);
  }
  tensor run_with(const conv2d_description& d, const operand_views& o) {
    return run(test_executor(), conv2d{.x = o.x,
                                       .w = o.w,
                                       .bias = o.bias,
                                       .y = o.y,
                                       .geometry = d.geometry,
                                       .activation = d.activation,
                                       .residual = o.residual});
  }
  tensor run_with(const convolution_description& d, const operand_views& o) {
    const auto fill = [&](auto operation) {
      operation.x = o.x;
      operation.w = o.w;
      operation.bias = o.bias;
      operation.residual = o.residual;
      operation.y = o.y;
      operation.strides = d.strides;
      operation.before = d.before;
      operation.after = d.after;
      operation.dilation = d.dilation;
      operation.groups = d.groups;
      operation.activation = d.activation;
      if constexpr (std::is_same_v<decltype(operation), transposed_convolution>) {
        operation.output_padding = d.output_padding;
      }
      return run(test_executor(), operation);
    };
    return d.is_transposed ? fill(transposed_convolution()) : fill(convolution());
  }

  std::mt19937_64 generator_ = make_generator();
};

TEST_P(conv2d_16_bits, random_geometries) {
  for (const auto type : {element_type::f16, element_type::bf16}) {
    for (int round = 0; round < 12; ++round) {
      expect_right(type, random_conv2d_description(generator()));
    }
  }
}

TEST_P(conv2d_16_bits, other_ranks_and_transposed) {
  for (const auto type : {element_type::f16, element_type::bf16}) {
    for (const bool is_transposed : {false, true}) {
      for (const std::size_t rank : {1U, 2U, 3U}) {
        for (int round = 0; round < 4; ++round) {
          expect_right(type, random_convolution(generator(), rank, is_transposed));
        }
      }
    }
  }
}

// Kernels of cuDNN 9.14 hang or end with an illegal instruction; see
// `convolution_key::breaks_graphs`.
TEST_P(conv2d_16_bits, transposed_with_long_strides) {
  for (const auto type : {element_type::f16, element_type::bf16}) {
    expect_right(type, convolution_description{.x = {2, 4, 5, 6, 4},
                                               .w = {4, 6, 5, 2, 1},
                                               .strides = {2, 2, 3},
                                               .before = {3, 0, 0},
                                               .after = {0, 0, 1},
                                               .dilation = {1, 2, 1},
                                               .is_transposed = true});
    for (const std::int64_t stride : {4, 8}) {
      const auto padding = coin() ? stride / 2 : 0;
      expect_right(type, convolution_description{.x = {2, 4, 5, 6},
                                                 .w = {4, 3, 2 * stride, 2 * stride},
                                                 .strides = {stride, stride},
                                                 .before = {stride / 2, stride / 2},
                                                 .after = {stride / 2, padding},
                                                 .dilation = {1, 1},
                                                 .is_transposed = true,
                                                 .has_bias = coin()});
    }
  }
}

// Tensor cores take multiples of eight channels. Their kernels may add a bias and apply ReLU.
TEST_P(conv2d_16_bits, channels_of_networks) {
  for (const auto type : {element_type::f16, element_type::bf16}) {
    for (const auto function : all_activations) {
      for (const std::int64_t groups : {1, 2, 32}) {
        const std::int64_t size = coin() ? 3 : 1;
        const std::int64_t side = coin() ? 8 : 9;
        expect_right(type,
                     conv2d_description{.x = {2, 32, side, side},
                                        .w = {32, 32 / groups, size, size},
                                        .geometry = {.padding = {.h = size / 2, .w = size / 2},
                                                     .stride = {.h = coin() ? 1 : 2, .w = 1},
                                                     .groups = groups},
                                        .has_bias = coin(),
                                        .has_residual = coin(),
                                        .activation = function});
      }
    }
  }
}

TEST_P(conv2d_16_bits, activations_keep_nan) {
  for (const auto type : {element_type::f16, element_type::bf16}) {
    for (const auto function : all_activations) {
      const auto nan = run(
          test_executor(),
          sluice::upload{.values = {std::vector<float>(2 * 32 * 9, NAN), extents{2, 32, 3, 3}}});
      const auto x = run(test_executor(), sluice::cast{.x = nan, .y = memory(type, nan.shape())});
      const auto y = run(test_executor(), conv2d{.x = x,
                                                 .w = numbers(type, {32, 32, 3, 3}),
                                                 .bias = coin() ? numbers(type, {32}) : tensor(),
                                                 .activation = function});
      for (const auto value : values(y)) {
        ASSERT_TRUE(std::isnan(value)) << "activation " << static_cast<int>(function);
      }
    }
  }
}

TEST_P(conv2d_16_bits, nothing_to_sum_is_the_bias) {
  for (const auto type : {element_type::f16, element_type::bf16}) {
    for (const bool has_bias : {false, true}) {
      expect_right(type,
                   conv2d_description{.x = {2, 0, 4, 5},
                                      .w = {3, 0, 2, 2},
                                      .has_bias = has_bias,
                                      .has_residual = coin(),
                                      .activation = coin() ? activation::relu : activation::none});
    }
  }
}

TEST_P(conv2d_16_bits, operands_have_one_type) {
  const auto x = numbers(element_type::f16, {1, 2, 4, 4});
  const auto refuse = [&](const char* text, const conv2d& request) {
    EXPECT_TRUE(throws(errc::invalid_argument, text, [&] { (void)run(test_executor(), request); }));
  };
  const auto w = numbers(element_type::f16, {3, 2, 3, 3});
  refuse("w: is of type bf16", {.x = x, .w = numbers(element_type::bf16, {3, 2, 3, 3})});
  refuse("bias: is of type f32", {.x = x, .w = w, .bias = numbers(element_type::f32, {3})});
  refuse("y: is of type f32", {.x = x, .w = w, .y = numbers(element_type::f32, {1, 3, 2, 2})});
}

INSTANTIATE_TEST_SUITE_P(devices, conv2d_16_bits, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
