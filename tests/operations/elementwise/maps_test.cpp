// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/elementwise/elements.hpp"

#include <sluice/operations/elementwise.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace sluice::test {
namespace {

class maps : public elementwise_test {};

/// A number as an element of a type.
number converted(element_type type, const number& value) {
  if (is_complex_type(type)) {
    return {to_real_type(type, value.real()), to_real_type(type, value.imag())};
  }
  if (is_floating_type(type)) return to_real_type(type, value.real());
  if (type == element_type::boolean) return value != number(0) ? 1 : 0;
  return with_integer_type(type, [&](auto integer_value) -> number {
    using integer = decltype(integer_value);
    const auto real = value.real();
    if (std::isnan(real)) return 0;
    const auto least = static_cast<long double>(std::numeric_limits<integer>::lowest());
    const auto most = static_cast<long double>(std::numeric_limits<integer>::max());
    // + 0: integers have no negative zero.
    return std::clamp(std::trunc(real), least, most) + 0.0L;
  });
}

TEST_P(maps, cast_converts_every_type_to_every_type) {
  for (const auto source_type : all_element_types) {
    for (const auto target_type : all_element_types) {
      if (is_complex_type(source_type) && !is_complex_type(target_type) &&
          target_type != element_type::boolean)
        continue;
      SCOPED_TRACE(std::string(to_string(source_type)) + " to " +
                   std::string(to_string(target_type)));
      for (const auto how : {drawn::bits, drawn::numbers}) {
        const auto x = make(source_type, {between(1, 3), between(1, 200)}, how);
        expect_right(cast{.x = x.view(), .type = target_type}, target_type, x.view().shape(),
                     [&](const extents& i) { return converted(target_type, x[i]); });
      }
    }
  }
}

TEST_P(maps, cast_many_numbers_to_16_bits) {
  for (const auto target_type : {element_type::f16, element_type::bf16}) {
    SCOPED_TRACE(to_string(target_type));
    for (const auto how : {drawn::bits, drawn::numbers}) {
      const auto x = make_contiguous(element_type::f64, {between(2000, 4000)}, how);
      expect_right(cast{.x = x.view(), .type = target_type}, target_type, x.view().shape(),
                   [&](const extents& i) { return converted(target_type, x[i]); });
    }
  }
}

TEST_P(maps, cast_rounds_once_and_saturates) {
  // Numbers beside the middle of two neighbours, which rounding twice takes for the middle.
  const std::vector<double> values{1 + 0x1p-11 + 0x1p-40,
                                   1 + 0x1p-11 - 0x1p-40,
                                   1 + 0x1p-11,
                                   1 + 0x3p-11,
                                   1 + 0x1p-8 + 0x1p-33,
                                   1 + 0x1p-8,
                                   65519.999999,
                                   65520,
                                   0x1p-25,
                                   0x1p-25 + 0x1p-60,
                                   0x1p-24 * 1.5,
                                   -0.0,
                                   255.9,
                                   -0.9,
                                   -1,
                                   256,
                                   1e300,
                                   -1e300,
                                   0x1p63,
                                   -0x1p63,
                                   0x1p64,
                                   0x1p31,
                                   -0x1p31 - 0.5,
                                   0x1.fffffffffffffp62,
                                   3.4028235677973366e38,
                                   std::numeric_limits<double>::infinity(),
                                   -std::numeric_limits<double>::infinity(),
                                   std::numeric_limits<double>::quiet_NaN(),
                                   std::numeric_limits<double>::denorm_min(),
                                   0x1p-133,
                                   0x1.8p-134};
  auto x = make_contiguous(element_type::f64, {static_cast<std::int64_t>(values.size())});
  x.set(values);
  const std::vector<std::int64_t> integers{(1 << 8) + 1,
                                           0x1010000000000001,
                                           0x1018000000000000,
                                           0x1018000000000001,
                                           -0x1018000000000001,
                                           std::numeric_limits<std::int64_t>::min(),
                                           std::numeric_limits<std::int64_t>::max(),
                                           -1,
                                           65519,
                                           65520,
                                           127,
                                           128,
                                           -129,
                                           0};
  auto n = make_contiguous(element_type::i64, {static_cast<std::int64_t>(integers.size())});
  n.set(integers);
  for (const auto target_type : all_element_types) {
    SCOPED_TRACE(to_string(target_type));
    expect_elements(run(test_executor(), cast{.x = x.view(), .type = target_type}),
                    [&](const extents& i) { return converted(target_type, x[i]); });
    expect_elements(run(test_executor(), cast{.x = n.view(), .type = target_type}),
                    [&](const extents& i) { return converted(target_type, n[i]); });
  }
}

TEST_P(maps, cast_of_any_shape_and_in_place) {
  for (int round = 0; round < 60; ++round) {
    const auto x = make(element_type::f32, random_shape(), drawn::bits);
    expect_right(cast{.x = x.view(), .type = element_type::i32}, element_type::i32,
                 x.view().shape(),
                 [&](const extents& i) { return converted(element_type::i32, x[i]); });
  }
  const auto x = make(element_type::f32, {5, 9});
  EXPECT_EQ(run(test_executor(), cast{.x = x.view(), .y = x.view()}), x.view());
  EXPECT_TRUE(x.current() == x.memory());
}

TEST_P(maps, strided_copy_keeps_every_bit) {
  for (const auto type : all_element_types) {
    SCOPED_TRACE(to_string(type));
    for (int round = 0; round < 12; ++round) {
      const auto x = make(type, random_shape(), drawn::bits);
      const auto y = make(type, x.view().shape());
      const auto result = run(test_executor(), strided_copy{.x = x.view(), .y = y.view()});
      const auto bytes = y.current();
      for_each_index(x.view().shape(), [&](const extents& i) {
        ASSERT_EQ(std::memcmp(&bytes[y.position(i)], &x.memory()[x.position(i)], size_of(type)), 0);
      });
      expect_gaps_untouched(y);
    }
  }
}

TEST_P(maps, strided_copy_makes_transposes_and_repetitions_contiguous) {
  const auto x = make(element_type::u16, {37, 29, 3}, drawn::bits);
  const auto result = run(test_executor(), strided_copy{.x = x.view().permute({2, 0, 1})});
  EXPECT_TRUE(result.is_contiguous());
  expect_elements(result, [&](const extents& i) { return x[{i[1], i[2], i[0]}]; });
  const auto row = make(element_type::f64, {1, 31});
  expect_elements(run(test_executor(), strided_copy{.x = row.view().broadcast_to({17, 31})}),
                  [&](const extents& i) {
                    return row[{0, i[1]}];
                  });
}

TEST_P(maps, strided_copy_of_large_transposes_keeps_every_bit) {
  for (const auto type : all_element_types) {
    const auto x =
        make_contiguous(type, {between(1, 3), between(1, 150), between(1, 150)}, drawn::bits);
    SCOPED_TRACE(std::string(to_string(type)) + ' ' + to_string(x.view().shape()));
    const auto last = run(test_executor(), strided_copy{.x = x.view().permute({0, 2, 1})});
    expect_elements(last, [&](const extents& i) { return x[{i[0], i[2], i[1]}]; });
    const auto all = run(test_executor(), strided_copy{.x = x.view().permute({2, 1, 0})});
    expect_elements(all, [&](const extents& i) { return x[{i[2], i[1], i[0]}]; });
  }
}

TEST_P(maps, affine_rounds_product_and_sum) {
  const auto types = {element_type::f16, element_type::bf16, element_type::f32, element_type::f64};
  for (const auto source_type : computed_element_types) {
    if (is_complex_type(source_type)) continue;
    for (const auto target_type : types) {
      SCOPED_TRACE(std::string(to_string(source_type)) + " to " +
                   std::string(to_string(target_type)));
      for (int round = 0; round < 4; ++round) {
        const auto x = make(source_type, random_shape(1));
        const auto shape = x.view().shape();
        const auto scale_type = coin() ? target_type : element_type::f32;
        const auto scale = make(scale_type, part_of(shape));
        const auto bias = make(target_type, part_of(shape));
        const bool has_scale = coin();
        const bool has_bias = coin();
        affine op{.x = x.view(), .type = target_type};
        const double factor = static_cast<float>(0.1) * (has_scale ? 0 : 1);
        if (has_scale) {
          op.scale = scale.view();
        } else {
          op.factor = factor;
        }
        if (has_bias) {
          op.bias = bias.view();
        } else {
          op.offset = -0.25;
        }
        const bool in_double = source_type == element_type::f64 ||
                               target_type == element_type::f64 ||
                               (has_scale && scale_type == element_type::f64);
        expect_right(op, target_type, shape, [&](const extents& i) -> number {
          const auto in = in_double ? element_type::f64 : element_type::f32;
          const auto a = to_real_type(in, x[i].real());
          const auto s = has_scale ? scale[i].real() : factor;
          const auto b = has_bias ? bias[i].real() : -0.25L;
          if (in_double) {
            const volatile double p = static_cast<double>(a) * static_cast<double>(s);
            return to_real_type(target_type, p + static_cast<double>(b));
          }
          const volatile float p = static_cast<float>(a) * static_cast<float>(s);
          return to_real_type(target_type, p + static_cast<float>(b));
        });
      }
    }
  }
}

TEST_P(maps, affine_of_channels_normalizes_an_image) {
  const auto image = make_contiguous(element_type::u8, {19, 23, 3}, drawn::bits);
  const auto scale = make(element_type::f32, {3});
  const auto bias = make(element_type::f32, {3});
  const auto expected = [&](std::int64_t h, std::int64_t w, std::int64_t c) -> number {
    const volatile float p =
        static_cast<float>(image[{h, w, c}].real()) * static_cast<float>(scale[{c}].real());
    return p + static_cast<float>(bias[{c}].real());
  };
  for (const std::int64_t axis : {2, -1}) {
    const auto y =
        run(test_executor(),
            affine{.x = image.view(), .scale = scale.view(), .bias = bias.view(), .axis = axis});
    EXPECT_EQ(y.type(), element_type::f32);
    expect_elements(y, [&](const extents& i) { return expected(i[0], i[1], i[2]); });
  }
  const auto channels_first = run(test_executor(), affine{.x = image.view().permute({2, 0, 1}),
                                                          .scale = scale.view(),
                                                          .bias = bias.view(),
                                                          .axis = 0});
  EXPECT_TRUE(channels_first.permute({1, 2, 0}).is_contiguous());
  expect_elements(channels_first, [&](const extents& i) { return expected(i[1], i[2], i[0]); });
}

TEST_P(maps, affine_in_place_of_all_inputs) {
  const auto x = make(element_type::f32, {7, 8});
  EXPECT_EQ(run(test_executor(),
                affine{.x = x.view(), .scale = x.view(), .bias = x.view(), .y = x.view()}),
            x.view());
  expect_elements(x.view(), [&](const extents& i) -> number {
    const auto value = static_cast<float>(x[i].real());
    const volatile float square = value * value;
    return square + value;
  });
  expect_gaps_untouched(x);
}

TEST_P(maps, affine_without_scale_and_bias_keeps_the_type) {
  for (const auto type : {element_type::f16, element_type::f64}) {
    const auto x = make(type, {7, 8});
    const auto y = run(test_executor(), affine{.x = x.view(), .y = x.view()});
    EXPECT_EQ(y, x.view());
    expect_elements(y, [&](const extents& i) { return x[i] + number(0); });
  }
}

TEST_P(maps, where_copies_the_bits_of_either_operand) {
  for (const auto type : all_element_types) {
    SCOPED_TRACE(to_string(type));
    for (int round = 0; round < 6; ++round) {
      const auto shape = random_shape(1);
      const auto condition = make(element_type::boolean, part_of(shape));
      const auto a = make(type, shape, drawn::bits);
      const auto b = make(type, part_of(shape), drawn::bits);
      const bool is_in_place = coin();
      where op{.condition = condition.view(), .a = a.view(), .b = b.view()};
      if (is_in_place) op.y = a.view();
      const auto y = run(test_executor(), op);
      EXPECT_EQ(y.shape(), shape);
      const auto bytes = contents_of(y);
      const auto strides = y.strides();
      for_each_index(shape, [&](const extents& i) {
        auto offset = static_cast<std::int64_t>(y.offset());
        for (std::size_t d = 0; d < i.size(); ++d) {
          offset += i[d] * strides[d] * static_cast<std::int64_t>(size_of(type));
        }
        const auto& source = condition[i].real() != 0 ? a : b;
        ASSERT_EQ(std::memcmp(&bytes[static_cast<std::size_t>(offset)],
                              &source.memory()[source.position(i)], size_of(type)),
                  0);
      });
      if (is_in_place) {
        expect_gaps_untouched(a);
      } else {
        expect_order_of({condition.view(), a.view(), b.view()}, y);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(devices, maps, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
