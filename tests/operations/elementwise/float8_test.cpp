// SPDX-License-Identifier: Apache-2.0
// What operations do with the 8-bit floating-point types beside moving them.
#include "tests/operations/elementwise/elements.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

class float8_elements : public elementwise_test {
 protected:
  template <class Operation>
  void expect_refused(const std::string& text, const Operation& operation) {
    const auto before = runtime().statistics().launches;
    EXPECT_TRUE(throws(errc::invalid_argument, text, [&] {
      (void)run(test_executor(), operation);
    })) << text;
    EXPECT_EQ(runtime().statistics().launches, before);
  }
};

/// A number out of range as NaN, which e4m3 has, or as infinity.
long double without_saturation(element_type type, long double value) {
  const auto saturated = to_real_type(type, value);
  const bool is_e4m3 = type == element_type::e4m3;
  // Halfway to the next number lies even.
  const bool in_range = std::abs(value) < (is_e4m3 ? 480.0L - 16 : 65536.0L - 4096) ||
                        (is_e4m3 && std::abs(value) == 464);
  if (std::isnan(value) || in_range) return saturated;
  return is_e4m3 ? std::numeric_limits<long double>::quiet_NaN()
                 : std::copysign(std::numeric_limits<long double>::infinity(), value);
}

TEST_P(float8_elements, of_every_f16_and_back) {
  std::vector<std::uint16_t> patterns(1U << 16U);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint16_t>(i);
  auto x = make_contiguous(element_type::f16, {std::ssize(patterns)});
  x.set(patterns);
  for (const auto type : float8_types) {
    SCOPED_TRACE(to_string(type));
    const auto y = run(test_executor(), cast{.x = x.view(), .type = type});
    expect_elements(y, [&](const extents& i) { return to_real_type(type, x[i].real()); });
    const cast overflowing{.x = x.view(), .type = type, .saturate = false};
    expect_elements(run(test_executor(), overflowing),
                    [&](const extents& i) { return without_saturation(type, x[i].real()); });
    expect_elements(run(test_executor(), cast{.x = y, .type = element_type::f32}),
                    [&](const extents& i) { return to_real_type(type, x[i].real()); });
  }
}

TEST_P(float8_elements, without_saturation_from_all_types) {
  for (const auto type : float8_types) {
    for (const auto source_type : all_element_types) {
      if (is_complex_type(source_type)) continue;
      SCOPED_TRACE(std::string(to_string(source_type)) + " to " + std::string(to_string(type)));
      for (const auto how : {drawn::bits, drawn::wide}) {
        const auto x = make(source_type, random_shape(), how);
        expect_right(cast{.x = x.view(), .type = type, .saturate = false}, type, x.view().shape(),
                     [&](const extents& i) { return without_saturation(type, x[i].real()); });
      }
    }
  }
  // Other types have no such choice.
  const auto x = make(element_type::f64, {3, 70}, drawn::bits);
  const auto saturated = run(test_executor(), cast{.x = x.view(), .type = element_type::i16});
  const auto unsaturated =
      run(test_executor(), cast{.x = x.view(), .type = element_type::i16, .saturate = false});
  EXPECT_TRUE(contents_of(saturated) == contents_of(unsaturated));
}

TEST_P(float8_elements, round_numbers_of_64_bits_once) {
  // Beside the middle of two neighbours, which rounding twice takes for the middle.
  auto x = make_contiguous(element_type::f64, {6});
  x.set(std::vector<double>{1.0625 + 0x1p-40, 1.0625 - 0x1p-40, 1.125 + 0x1p-40, 1.125 - 0x1p-40,
                            464 + 0x1p-40, 61440 - 0x1p-30});
  auto n = make_contiguous(element_type::i64, {4});
  n.set(std::vector<std::int64_t>{17, 19, -(std::int64_t{1} << 40), 463});
  for (const auto type : float8_types) {
    SCOPED_TRACE(to_string(type));
    for (const auto* source : {&x, &n}) {
      expect_elements(
          run(test_executor(), cast{.x = source->view(), .type = type, .saturate = false}),
          [&](const extents& i) { return without_saturation(type, (*source)[i].real()); });
    }
  }
}

TEST_P(float8_elements, are_filled) {
  const auto filled = [&](element_type type, const scalar& value) {
    return number_at(type, contents_of(run(test_executor(),
                                           fill{.value = value, .shape = extents{1}, .type = type}))
                               .data())
        .real();
  };
  EXPECT_EQ(filled(element_type::e4m3, 448), 448);
  EXPECT_EQ(filled(element_type::e4m3, -464.0), -448);
  EXPECT_EQ(filled(element_type::e4m3, 1.0625 + 0x1p-40), 1.125);
  EXPECT_EQ(filled(element_type::e5m2, -0.1), -0.09375);
  EXPECT_EQ(filled(element_type::e5m2, HUGE_VAL), HUGE_VALL);
  EXPECT_TRUE(std::isnan(filled(element_type::e4m3, NAN)));
  EXPECT_TRUE(std::isnan(filled(element_type::e5m2, NAN)));
  const auto refused = [&](element_type type, const scalar& value, const std::string& text) {
    expect_refused("value: " + text + " is out of the range of " + std::string(to_string(type)),
                   fill{.value = value, .shape = extents{1}, .type = type});
  };
  refused(element_type::e4m3, 465, "465");
  refused(element_type::e4m3, HUGE_VAL, "inf");
  refused(element_type::e4m3, -HUGE_VAL, "-inf");
  refused(element_type::e5m2, 61440, "61440");
  refused(element_type::e5m2, std::numeric_limits<std::uint64_t>::max(), "18446744073709551615");
}

TEST_P(float8_elements, are_not_computed_with) {
  const auto number = make(element_type::f32, {1});
  const auto indices = make_contiguous(element_type::i64, {2, 2});
  for (const auto type : float8_types) {
    const auto name = std::string(to_string(type));
    const auto x = make(type, {4, 4});
    const auto images = make(type, {1, 4, 8, 8});
    const auto vector = make(type, {4});
    const auto is = ": is of type " + name;
    for (std::size_t i = 0; i < unary_function_count; ++i) {
      expect_refused("x" + is, unary{.function = static_cast<unary_function>(i), .x = x.view()});
    }
    for (std::size_t i = 0; i < binary_function_count; ++i) {
      expect_refused(
          "a" + is,
          binary{.function = static_cast<binary_function>(i), .a = x.view(), .b = x.view()});
    }
    for (int i = 0; i <= static_cast<int>(reduction::argmin); ++i) {
      expect_refused("x" + is + ", which this operation does not take; cast converts",
                     reduce{.x = x.view(), .kind = static_cast<reduction>(i)});
    }
    expect_refused("x" + is, affine{.x = x.view(), .factor = 2});
    const auto reals = make(element_type::f32, {4, 4});
    expect_refused("scale" + is, affine{.x = reals.view(), .scale = vector.view()});
    expect_refused("bias" + is, affine{.x = reals.view(), .bias = vector.view()});
    expect_refused("type: is " + name, affine{.x = reals.view(), .factor = 2, .type = type});
    expect_refused("x" + is, sluice::sort{.x = x.view()});
    expect_refused("x" + is, top_k{.x = x.view(), .k = 2});
    expect_refused("x" + is, cumulative{.x = x.view()});
    expect_refused("x" + is, histogram{.x = x.view(), .bins = 3, .low = 0, .high = 1});
    expect_refused("type: is " + name, range{.limit = 3, .type = type});
    expect_refused("x" + is, scatter_elements{.x = x.view(),
                                              .indices = indices.view(),
                                              .updates = x.view().slice(0, 0, 2).slice(1, 0, 2),
                                              .combine = scatter_combine::add});
    expect_refused("x" + is,
                   col2im{.x = make(type, {1, 4, 9}).view(), .size = {4, 4}, .window = {2, 2}});
    expect_refused("x" + is, resize{.x = images.view(), .sizes = {4, 4}});
    expect_refused("x" + is, softmax{.x = x.view()});
    expect_refused("x" + is, layer_norm{.x = x.view()});
    expect_refused("x" + is, pool{.x = images.view(), .window = {2, 2}});
    expect_refused("x" + is, conv2d{.x = images.view(), .w = images.view()});
    expect_refused("q" + is, attention{.q = images.view(), .k = images.view(), .v = images.view()});
    expect_refused("x" + is, quantize{.x = x.view(), .scale = number.view()});
    expect_refused("x" + is, dynamic_quantize{.x = x.view()});
    expect_refused("scale" + is, dequantize{.x = x.view(), .scale = make(type, {}).view()});
    expect_refused("x" + is, fft{.x = x.view()});
    expect_refused("type: is " + name, random_uniform{.shape = extents{4}, .type = type});
  }
}

TEST_P(float8_elements, as_host_tensors) {
  const host_tensor x(std::vector<float>{1, 1000, -0.3F, NAN}, {4});
  const auto y = x.to(element_type::e4m3);
  EXPECT_EQ(static_cast<float>(y.values<e4m3>()[1]), 448);
  const auto back = y.to(element_type::f32);
  EXPECT_EQ(back.values<float>()[2], -0.3125F);
  EXPECT_TRUE(std::isnan(back.values<float>()[3]));
  const auto uploaded = run(test_executor(), sluice::upload{.values = y});
  EXPECT_EQ(uploaded.type(), element_type::e4m3);
  expect_elements(uploaded, [&](const extents& i) {
    return number(back.values<float>()[static_cast<std::size_t>(i[0])]);
  });
}

INSTANTIATE_TEST_SUITE_P(devices, float8_elements, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
