// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/dnn/convolution_reference.hpp"
#include "tests/operations/executing.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/convolution.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// Integers of a type, in a view with random strides, and their values in row-major order.
struct integers {
  tensor view;
  std::vector<int> values;
};

class integer_convolution_operation : public executor_test {
 protected:
  std::mt19937_64& generator() { return generator_; }
  [[nodiscard]] bool coin() { return (generator_() & 1U) != 0; }

  integers numbers(bool is_signed, const extents& shape) {
    return is_signed ? numbers_of<std::int8_t>(shape) : numbers_of<std::uint8_t>(shape);
  }
  /// Compares a convolution of random integers with its definition. The elements around Y stay as
  /// they are.
  void expect_right(convolution_description d, bool has_x_zero, bool has_w_zero) {
    SCOPED_TRACE(::testing::PrintToString(d));
    const bool x_is_signed = coin(), w_is_signed = coin();
    const auto x = numbers(x_is_signed, d.x), w = numbers(w_is_signed, d.w);
    const auto x_zero = numbers(x_is_signed, coin() ? extents{} : extents{1});
    const auto w_zero = numbers(w_is_signed, {coin() ? d.w[0] : 1});
    const auto shape = output_shape(d);
    const strided<std::int32_t> y(runtime(), stream(), generator_,
                                  random_layout(generator_, shape));
    const bool gives_y = coin();
    const auto result = run(test_executor(),
                            integer_convolution{.x = x.view,
                                                .w = w.view,
                                                .x_zero_point = has_x_zero ? x_zero.view : tensor(),
                                                .w_zero_point = has_w_zero ? w_zero.view : tensor(),
                                                .y = gives_y ? y.view() : tensor(),
                                                .strides = d.strides,
                                                .before = d.before,
                                                .after = d.after,
                                                .dilation = d.dilation,
                                                .groups = d.groups});
    ASSERT_EQ(result.type(), element_type::i32);
    ASSERT_EQ(result.shape(), shape);
    convolution_problem p{.description = d};
    for (const auto value : x.values) {
      p.x.push_back(static_cast<float>(value - (has_x_zero ? x_zero.values[0] : 0)));
    }
    const auto filter = w.values.size() / static_cast<std::size_t>(d.w[0]);
    for (std::size_t i = 0; i < w.values.size(); ++i) {
      const auto zero = w_zero.values[w_zero.values.size() == 1 ? 0 : i / filter];
      p.w.push_back(static_cast<float>(w.values[i] - (has_w_zero ? zero : 0)));
    }
    const auto expected = convolution_reference(p);
    std::size_t next = 0;
    if (!gives_y) {
      const auto memory =
          download(gpu_ref<std::int32_t>(result.block(), result.offset(), result.size()), stream());
      for_each_index(shape, [&](const extents& i) {
        std::int64_t position = 0;
        for (std::size_t k = 0; k < i.size(); ++k) position += i[k] * result.strides()[k];
        ASSERT_EQ(memory[static_cast<std::size_t>(position)], expected[next++]);
      });
      return;
    }
    auto memory = y.current();
    auto before = y.memory();
    for_each_index(shape, [&](const extents& i) {
      ASSERT_EQ(memory[y.position(i)], expected[next++]);
      memory[y.position(i)] = before[y.position(i)];
    });
    EXPECT_EQ(memory, before);
  }

 private:
  template <class T>
  integers numbers_of(const extents& shape) {
    const strided<T> memory(runtime(), stream(), generator_, random_layout(generator_, shape));
    integers result{memory.view(), {}};
    for_each_index(shape, [&](const extents& i) { result.values.push_back(memory[i]); });
    return result;
  }

  std::mt19937_64 generator_ = make_generator();
};

TEST_P(integer_convolution_operation, random_geometries) {
  for (const std::size_t rank : {1U, 2U, 3U}) {
    for (int i = 0; i < 20; ++i) {
      auto d = random_convolution(generator(), rank, false);
      d.has_bias = d.has_residual = false;
      d.activation = activation::none;
      expect_right(d, coin(), coin());
    }
  }
}

TEST_P(integer_convolution_operation, extremes) {
  // 255 · 2^7 · many: sums of large products.
  convolution_description d{
      .x = {1, 64, 9, 9}, .w = {3, 64, 3, 3}, .before = {1, 1}, .after = {1, 0}};
  expect_right(d, true, true);
  d = {.x = {1, 1, 1}, .w = {1, 1, 1}};
  expect_right(d, true, false);
  // Nothing but padding along the last outputs.
  d = {.x = {2, 3, 2}, .w = {2, 3, 1}, .strides = {2}, .before = {3}, .after = {4}};
  expect_right(d, true, true);
}

TEST_P(integer_convolution_operation, no_channels_give_zeros_and_no_images_nothing) {
  const auto none = numbers(true, {2, 3, 5});
  const auto w = numbers(true, {4, 3, 2});
  const auto empty =
      run(test_executor(), integer_convolution{.x = none.view.slice(0, 0, 0), .w = w.view});
  EXPECT_EQ(empty.shape(), (extents{0, 4, 4}));
  const auto y = run(test_executor(), integer_convolution{.x = none.view.slice(1, 0, 0),
                                                          .w = w.view.slice(1, 0, 0)});
  ASSERT_EQ(y.shape(), (extents{2, 4, 4}));
  EXPECT_EQ(download(gpu_ref<std::int32_t>(y.block(), y.offset(), y.size()), stream()),
            std::vector<std::int32_t>(32, 0));
  const auto x = numbers(true, {2, 1, 4});
  const auto taps = numbers(true, {3, 1, 2});
  const auto zeros =
      run(test_executor(),
          integer_convolution{.x = run(test_executor(), strided_copy{.x = x.view.slice(1, 0, 0)}),
                              .w = taps.view.slice(1, 0, 0)});
  EXPECT_EQ(zeros.shape(), (extents{2, 3, 3}));
}

TEST_P(integer_convolution_operation, names_what_is_wrong) {
  const auto x = numbers(true, {1, 3, 8}).view;
  const auto w = numbers(false, {4, 3, 3}).view;
  const auto refuses = [&](const char* text, const integer_convolution& request) {
    EXPECT_TRUE(throws(errc::invalid_argument, text, [&] { (void)run(test_executor(), request); }));
  };
  refuses("x: is of type i32",
          {.x = tensor(runtime().allocate<std::int32_t>(24, stream(), "x")).reshape({1, 3, 8}),
           .w = w});
  refuses("x_zero_point: is of type u8",
          {.x = x, .w = w, .x_zero_point = numbers(false, {1}).view});
  refuses("x_zero_point: has the shape", {.x = x, .w = w, .x_zero_point = numbers(true, {3}).view});
  refuses("w_zero_point: has the shape",
          {.x = x, .w = w, .w_zero_point = numbers(false, {3}).view});
  refuses("strides: is", {.x = x, .w = w, .strides = {1, 1}});
  refuses("w: has filters of 3 channels", {.x = x.slice(1, 0, 2), .w = w});
}

INSTANTIATE_TEST_SUITE_P(devices, integer_convolution_operation, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
