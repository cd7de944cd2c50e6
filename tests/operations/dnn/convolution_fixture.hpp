// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/dnn/conv2d_reference.hpp"
#include "tests/operations/executing.hpp"
#include "tests/support/relative_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/convolution.hpp>
#include <sluice/operations/dnn.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace sluice::test {

/// How the operands of a convolution lie in memory.
struct convolution_layouts {
  extents x_order{};
  extents w_order{};
  extents y_order{};       ///< also of the residual
  std::int64_t x_gap = 0;  ///< elements between images of X
  std::int64_t y_gap = 0;  ///< elements between images of Y
  std::size_t offset = 0;  ///< elements before the first one of each operand
  bool gives_y = true;
  bool is_random = false;  ///< instead: each operand with an order, gaps and an offset of its own
};

/// The order of the dimensions of channels-last images with this number of dimensions.
inline extents channels_last(std::size_t rank) {
  extents order{0};
  for (std::size_t i = 2; i < rank; ++i) order.push_back(static_cast<std::int64_t>(i));
  order.push_back(1);
  return order;
}

/// Runs convolutions of f32 and compares them with their definition.
class convolution_fixture : public executor_test {
 protected:
  void SetUp() override {
    executor_test::SetUp();
    if (IsSkipped()) return;
    if (!has_convolutions(runtime().device().id().kind)) {
      GTEST_SKIP() << "this build has no dnn library for the device";
    }
  }
  [[nodiscard]] bool on_host() { return runtime().device().id().kind == device_kind::host; }
  std::mt19937_64& generator() { return generator_; }
  [[nodiscard]] std::int64_t draw(std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution<std::int64_t>(first, last)(generator_);
  }

  /// Convolves random operands. The elements around Y stay as they are.
  ///@{
  void expect_right(const conv2d_description& d, const convolution_layouts& layouts = {}) {
    expect(described(d), layouts, [&](auto& operands) {
      return run(test_executor(), conv2d{.x = operands.x,
                                         .w = operands.w,
                                         .bias = operands.bias,
                                         .y = operands.y,
                                         .geometry = d.geometry,
                                         .activation = d.activation,
                                         .math = d.math,
                                         .residual = operands.residual});
    });
  }
  void expect_convolution(const convolution_description& d,
                          const convolution_layouts& layouts = {}) {
    expect(d, layouts, [&](auto& operands) {
      if (!d.is_transposed) {
        return run(test_executor(), convolution{.x = operands.x,
                                                .w = operands.w,
                                                .bias = operands.bias,
                                                .residual = operands.residual,
                                                .y = operands.y,
                                                .strides = d.strides,
                                                .before = d.before,
                                                .after = d.after,
                                                .dilation = d.dilation,
                                                .groups = d.groups,
                                                .activation = d.activation,
                                                .math = d.math});
      }
      return run(test_executor(), transposed_convolution{.x = operands.x,
                                                         .w = operands.w,
                                                         .bias = operands.bias,
                                                         .residual = operands.residual,
                                                         .y = operands.y,
                                                         .strides = d.strides,
                                                         .before = d.before,
                                                         .after = d.after,
                                                         .output_padding = d.output_padding,
                                                         .dilation = d.dilation,
                                                         .groups = d.groups,
                                                         .activation = d.activation,
                                                         .math = d.math});
    });
  }
  ///@}

  /// The elements of a new tensor without gaps, in row-major order.
  std::vector<float> row_major(const tensor& t) {
    const gpu_ref<float> all(t.block(), t.offset(), t.size());
    const auto memory = download(all, stream());
    std::vector<float> ordered;
    for_each_index(t.shape(), [&](const extents& i) {
      std::int64_t position = 0;
      for (std::size_t d = 0; d < i.size(); ++d) position += i[d] * t.strides()[d];
      ordered.push_back(memory[static_cast<std::size_t>(position)]);
    });
    return ordered;
  }
  /// Random numbers.
  tensor numbers(const extents& shape) {
    return tensor(
               upload(runtime(), stream(), random_values<float>(generator_, element_count(shape))))
        .reshape(shape);
  }

 private:
  struct operand_views {
    tensor x, w, bias, residual, y;
  };

  template <class Run>
  void expect(const convolution_description& d, const convolution_layouts& l, const Run& request) {
    constexpr float mark = 12345;
    SCOPED_TRACE(::testing::PrintToString(d));
    const auto make = [&](const extents& shape, const extents& order, std::int64_t gap) {
      extents gaps;
      for (std::size_t i = 0; i < shape.size(); ++i) gaps.push_back(i == 0 ? gap : 0);
      return strided<float>(runtime(), stream(), generator_,
                            l.is_random ? random_layout(generator_, shape)
                                        : strided_layout{shape, order, gaps, l.offset});
    };
    const auto shape = output_shape(d);
    const auto x = make(d.x, l.x_order, l.x_gap);
    const auto w = make(d.w, l.w_order, 0);
    const auto bias = make({shape[1]}, {}, 0);
    const auto residual = make(shape, l.y_order, l.x_gap);
    auto y = make(shape, l.y_order, l.y_gap);
    y.replace(std::vector<float>(y.memory().size(), mark));
    const operand_views operands{x.view(), w.view(), d.has_bias ? bias.view() : tensor(),
                                 d.has_residual ? residual.view() : tensor(),
                                 l.gives_y ? y.view() : tensor()};
    const auto result = request(operands);
    ASSERT_EQ(result.shape(), shape);
    const auto contents = [](const strided<float>& source, const extents& source_shape) {
      std::vector<float> values;
      for_each_index(source_shape, [&](const extents& i) { values.push_back(source[i]); });
      return values;
    };
    const auto expected =
        convolution_reference({d, contents(x, d.x), contents(w, d.w), contents(bias, {shape[1]}),
                               contents(residual, shape)});
    std::vector<float> computed;
    if (l.gives_y) {
      EXPECT_EQ(result, y.view());
      auto memory = y.current();
      for_each_index(shape, [&](const extents& i) {
        computed.push_back(std::exchange(memory[y.position(i)], mark));
      });
      EXPECT_EQ(memory, y.memory());
    } else {
      computed = row_major(result);
    }
    EXPECT_LE(relative_error(computed, expected),
              d.math == math_mode::tf32 ? 1e-3 : error_bound<float>(terms(d)));
    EXPECT_EQ(x.current(), x.memory());
    EXPECT_EQ(w.current(), w.memory());
    EXPECT_EQ(residual.current(), residual.memory());
  }

  std::mt19937_64 generator_ = make_generator();
};

}  // namespace sluice::test
