// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/elementwise/elements.hpp"

#include <sluice/operations/program.hpp>
#include <sluice/operations/quantization.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

constexpr auto quantized_types = {element_type::u8,  element_type::i8,   element_type::u16,
                                  element_type::i16, element_type::e4m3, element_type::e5m2};
constexpr auto scale_types = {element_type::f16, element_type::bf16, element_type::f32};

long double to_f32(long double value) {
  return to_real_type(element_type::f32, value);
}

/// The smallest and the largest number of an integer type.
std::pair<long double, long double> limits_of(element_type type) {
  return with_integer_type(type, [](auto integer) {
    using native = decltype(integer);
    return std::pair<long double, long double>(std::numeric_limits<native>::lowest(),
                                               std::numeric_limits<native>::max());
  });
}

/// QuantizeLinear by definition, where each step is rounded to f32.
number quantized_number(element_type type, long double x, long double scale, long double zero) {
  if (is_float8_type(type)) {
    return to_real_type(type, to_f32(to_f32(to_f32(x) / scale) + zero));
  }
  const auto rounded_quotient = std::nearbyint(to_f32(to_f32(x) / scale));
  const auto value = rounded_quotient + zero;
  const auto [lowest, highest] = limits_of(type);
  // Of an infinite or a large number, the sum is out of range, too.
  return std::isnan(value) ? number(0) : number(std::clamp(value, lowest, highest));
}

/// The shape of scale, and the dimension that it belongs to.
struct scale_form {
  extents shape{};
  std::optional<std::int64_t> axis{};

  /// The index in scale of an element of x.
  [[nodiscard]] extents index_of(const extents& x_shape, const extents& index) const {
    const auto rank = static_cast<std::int64_t>(x_shape.size());
    if (axis) return {index[static_cast<std::size_t>(*axis < 0 ? *axis + rank : *axis)]};
    auto result = shape;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const auto d = x_shape.size() - shape.size() + i;
      result[i] = index[d] / std::max<std::int64_t>(x_shape[d] / shape[i], 1);
    }
    return result;
  }
};

class quantization : public elementwise_test {
 protected:
  /// Scales of all elements, of the indices along an axis, of some dimensions or of blocks.
  scale_form random_form(const extents& shape) {
    const auto rank = static_cast<std::int64_t>(shape.size());
    const bool has_elements = std::find(shape.begin(), shape.end(), 0) == shape.end();
    switch (rank == 0 ? 0 : between(0, has_elements ? 3 : 1)) {
      case 0:
        return {};
      case 1: {
        const auto axis = between(0, rank - 1);
        return {{shape[static_cast<std::size_t>(axis)]}, coin() ? axis : axis - rank};
      }
      case 2:
        return {part_of(shape)};
      default:
        scale_form form{shape};
        for (std::size_t d = 0; d < shape.size(); ++d) {
          do {
            form.shape[d] = between(1, shape[d]);
          } while (shape[d] % form.shape[d] != 0);
        }
        return form;
    }
  }
  element_type one_of(std::initializer_list<element_type> types) {
    return types.begin()[static_cast<std::size_t>(between(0, std::ssize(types) - 1))];
  }
  elements make_scale(const extents& shape) {
    return make(one_of(scale_types), shape, coin() ? drawn::numbers : drawn::positive);
  }

  void expect_quantized(element_type type, const elements& x) {
    const auto shape = x.view().shape();
    const auto form = random_form(shape);
    SCOPED_TRACE(std::string(to_string(x.type())) + ' ' + to_string(shape) + " to " +
                 std::string(to_string(type)) + ", scale " + to_string(form.shape));
    const auto scale = make_scale(form.shape);
    const auto zero = make(type, form.shape);
    const bool has_zero = coin();
    quantize request{.x = x.view(), .scale = scale.view(), .axis = form.axis, .type = type};
    if (has_zero) request.zero_point = zero.view();
    const auto missing = is_float8_type(type) ? -0.0L : 0.0L;  // keeps -0
    expect_right(request, type, shape, [&](const extents& index) {
      const auto place = form.index_of(shape, index);
      return quantized_number(type, x[index].real(), scale[place].real(),
                              has_zero ? zero[place].real() : missing);
    });
  }
  void expect_dynamic(const elements& x) {
    const auto shape = x.view().shape();
    SCOPED_TRACE(std::string(to_string(x.type())) + ' ' + to_string(shape));
    const auto results = run(test_executor(), dynamic_quantize{.x = x.view()});
    ASSERT_EQ(results.size(), 3U);
    expect_order_of({x.view()}, results[0]);
    long double smallest = 0;
    long double largest = 0;
    bool has_nan = false;
    for_each_index(shape, [&](const extents& index) {
      const auto value = x[index].real();
      has_nan = has_nan || std::isnan(value);
      smallest = std::min(smallest, value);
      largest = std::max(largest, value);
    });
    auto scale = to_f32(to_f32(largest - smallest) / 255);
    if (scale == 0) scale = 1;
    if (has_nan) scale = std::numeric_limits<long double>::quiet_NaN();
    const auto zero = quantized_number(element_type::u8, -smallest, scale, 0);
    expect_elements(results[1], [&](const extents&) { return number(scale); });
    expect_elements(results[2], [&](const extents&) { return zero; });
    EXPECT_EQ(results[0].shape(), shape);
    expect_elements(results[0], [&](const extents& index) {
      return quantized_number(element_type::u8, x[index].real(), scale, zero.real());
    });
  }
};

TEST_P(quantization, of_all_types_shapes_strides_and_forms_of_scale) {
  for (const auto type : quantized_types) {
    for (const auto x_type :
         {element_type::f16, element_type::bf16, element_type::f32, element_type::i32}) {
      for (const auto how : {drawn::few, drawn::wide, drawn::bits}) {
        expect_quantized(type, make(x_type, random_shape(0, 4), how));
      }
    }
  }
}

TEST_P(quantization, of_many_elements) {
  for (const auto type : quantized_types) {
    expect_quantized(type, make_contiguous(element_type::f32, {16, 1200}, drawn::wide));
    expect_quantized(type, make_contiguous(element_type::f16, {7, 1031}, drawn::wide));
  }
}

TEST_P(quantization, rounds_ties_to_even_and_saturates) {
  constexpr auto infinity = std::numeric_limits<float>::infinity();
  auto x = make_contiguous(element_type::f32, {9});
  x.set(std::vector<float>{0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 300, -300, infinity,
                           std::numeric_limits<float>::quiet_NaN()});
  auto scale = make_contiguous(element_type::f32, {});
  scale.set(std::vector<float>{1});
  auto zero = make_contiguous(element_type::i8, {});
  zero.set(std::vector<std::int8_t>{1});
  const std::vector<int> wanted{1, 3, 3, 1, -1, 127, -128, 127, 0};
  const quantize request{.x = x.view(), .scale = scale.view(), .zero_point = zero.view()};
  expect_elements(run(test_executor(), request),
                  [&](const extents& i) { return number(wanted[static_cast<std::size_t>(i[0])]); });
  const quantize bytes{.x = x.view(), .scale = scale.view()};
  EXPECT_EQ(run(test_executor(), bytes).type(), element_type::u8);
}

TEST_P(quantization, rounds_to_the_nearest_number_of_8_bits_and_saturates) {
  constexpr auto infinity = std::numeric_limits<float>::infinity();
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  auto x = make_contiguous(element_type::f32, {10});
  // In units of the scale: ties of e4m3 and e5m2, numbers out of range, and special ones.
  x.set(std::vector<float>{2.125F, 2.375F, -0x1p-9F, 0x1p-10F, 928, 1e30F, -infinity, infinity, nan,
                           -0.0F});
  auto scale = make_contiguous(element_type::f32, {});
  scale.set(std::vector<float>{2});
  const std::vector<long double> e4m3_numbers{1.0L, 1.25L, -0.0L, 0,   448,
                                              448,  -448,  448,   nan, -0.0L};
  const quantize request{.x = x.view(), .scale = scale.view(), .type = element_type::e4m3};
  expect_elements(run(test_executor(), request), [&](const extents& i) {
    return number(e4m3_numbers[static_cast<std::size_t>(i[0])]);
  });
  const std::vector<long double> e5m2_numbers{1.0L,  1.25L,  -0x1p-10L, 0x1p-11L, 448,
                                              57344, -57344, 57344,     nan,      -0.0L};
  const quantize smaller{.x = x.view(), .scale = scale.view(), .type = element_type::e5m2};
  expect_elements(run(test_executor(), smaller), [&](const extents& i) {
    return number(e5m2_numbers[static_cast<std::size_t>(i[0])]);
  });
}

TEST_P(quantization, blocks_of_most_dimensions) {
  const extents shape{2, 1, 2, 1, 4, 1, 6};
  const auto x = make(element_type::f32, shape, drawn::wide);
  const scale_form form{{2, 1, 3}};
  const auto scale = make_scale(form.shape);
  const quantize request{.x = x.view(), .scale = scale.view(), .type = element_type::i16};
  expect_right(request, element_type::i16, shape, [&](const extents& index) {
    return quantized_number(element_type::i16, x[index].real(),
                            scale[form.index_of(shape, index)].real(), 0);
  });
}

TEST_P(quantization, is_undone_by_dequantize) {
  for (const auto x_type :
       {element_type::u8, element_type::i8, element_type::u16, element_type::i16, element_type::i32,
        element_type::e4m3, element_type::e5m2}) {
    for (const auto type : scale_types) {
      for (int round = 0; round < 3; ++round) {
        const auto x = make(x_type, random_shape(0, 4));
        const auto shape = x.view().shape();
        const auto form = random_form(shape);
        SCOPED_TRACE(std::string(to_string(x_type)) + ' ' + to_string(shape) + " to " +
                     std::string(to_string(type)) + ", scale " + to_string(form.shape));
        const auto scale = make_scale(form.shape);
        const auto zero = make(x_type, form.shape);
        const bool has_zero = x_type != element_type::i32 && coin();
        dequantize request{.x = x.view(), .scale = scale.view(), .axis = form.axis, .type = type};
        if (has_zero) request.zero_point = zero.view();
        expect_right(request, type, shape, [&](const extents& index) {
          const auto place = form.index_of(shape, index);
          const auto difference = to_f32(x[index].real()) - (has_zero ? zero[place].real() : 0);
          return number(to_real_type(type, to_f32(difference * scale[place].real())));
        });
      }
    }
  }
  const auto x = make(element_type::i8, {3, 5});
  const auto scale = make(element_type::bf16, {});
  const auto y = run(test_executor(), dequantize{.x = x.view(), .scale = scale.view()});
  EXPECT_EQ(y.type(), element_type::bf16);
}

TEST_P(quantization, finds_the_scale) {
  for (const auto type : scale_types) {
    for (const auto how : {drawn::few, drawn::wide, drawn::positive, drawn::bits}) {
      for (int round = 0; round < 3; ++round) expect_dynamic(make(type, random_shape(), how));
    }
    expect_dynamic(make_contiguous(type, {9, 1031}, drawn::wide));
  }
  expect_dynamic(make(element_type::f32, {3, 0}));
}

TEST_P(quantization, finds_the_scale_of_special_numbers) {
  constexpr auto infinity = std::numeric_limits<float>::infinity();
  const std::vector<std::vector<float>> all{{0},
                                            {-0.0F, 0},
                                            {1e-45F},
                                            {-2, -1},
                                            {3e38F, -3e38F},
                                            {infinity, 1},
                                            {-infinity, infinity},
                                            {1, std::nanf("")}};
  for (const auto& values : all) {
    auto x = make_contiguous(element_type::f32, {2000});
    x.set(values);
    expect_dynamic(x);
  }
}

TEST_P(quantization, writes_given_results_of_any_strides) {
  const auto x = make(element_type::f32, {5, 7}, drawn::wide);
  const auto y = make(element_type::u8, {5, 7});
  const auto scale = make(element_type::f32, {});
  const auto zero = make(element_type::u8, {});
  const dynamic_quantize request{
      .x = x.view(), .y = y.view(), .scale = scale.view(), .zero_point = zero.view()};
  EXPECT_EQ(run(test_executor(), request), (tensors{y.view(), scale.view(), zero.view()}));
  const auto again = run(test_executor(), dynamic_quantize{.x = x.view()});
  const quantize same{.x = x.view(), .scale = again[1], .zero_point = again[2]};
  const auto result = run(test_executor(), same);
  const auto wanted = contents_of(run(test_executor(), strided_copy{.x = result}));
  expect_elements(y.view(), [&](const extents& i) {
    return number(std::to_integer<int>(wanted[static_cast<std::size_t>(i[0] * 7 + i[1])]));
  });
  for (const auto* each : {&y, &scale, &zero}) expect_gaps_untouched(*each);
}

TEST_P(quantization, as_steps_of_a_program) {
  program_builder p;
  const auto x_input = p.input("x");
  const auto quantized = p.add("quantized", dynamic_quantize{.x = x_input});
  const auto restored = p.add(
      "restored", dequantize{.x = quantized[0], .scale = quantized[1], .zero_point = quantized[2]});
  const auto x = make(element_type::f32, {40, 60});
  const auto results =
      run(test_executor(), sluice::run{std::move(p).build({restored}), {x.view()}});
  expect_each(results[0], [&](const extents& index, const number& computed) {
    const auto error = std::abs(computed.real() - x[index].real());
    return error < 2.0L / 255 ? ::testing::AssertionSuccess()
                              : ::testing::AssertionFailure() << "differs by " << error;
  });
}

INSTANTIATE_TEST_SUITE_P(devices, quantization, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
