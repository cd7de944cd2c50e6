// SPDX-License-Identifier: Apache-2.0
// The 16-bit types against their definition in double precision.
#include "tests/support/seed.hpp"

#include <sluice/runtime/float16.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace sluice::test {
namespace {

/// The value of `bits`, from the definition of a format with `exponent_bits` and `fraction_bits`.
double value_of(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const auto fraction = bits & ((1U << fraction_bits) - 1U);
  const auto exponent = (bits >> fraction_bits) & ((1U << exponent_bits) - 1U);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  double magnitude = 0;
  if (exponent == (1U << exponent_bits) - 1U) {
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(fraction, 1 - bias - fraction_bits);
  } else {
    magnitude = std::ldexp(fraction + (1U << fraction_bits),
                           static_cast<int>(exponent) - bias - fraction_bits);
  }
  return (bits >> (exponent_bits + fraction_bits)) != 0 ? -magnitude : magnitude;
}

template <class Type>
struct format;
template <>
struct format<f16> {
  static constexpr int exponent = 5;
  static constexpr int fraction = 10;
};
template <>
struct format<bf16> {
  static constexpr int exponent = 8;
  static constexpr int fraction = 7;
};

template <class Type>
class float16 : public ::testing::Test {
 protected:
  static double value(std::uint32_t bits) {
    return value_of(bits, format<Type>::exponent, format<Type>::fraction);
  }
  /// Checks that `x` is rounded to the nearest value, ties to the even one.
  static void expect_nearest(float x) {
    const Type rounded(x);
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(value(rounded.bits))) << x;
      return;
    }
    EXPECT_EQ((rounded.bits & 0x8000U) != 0, std::signbit(x)) << x;
    // Behind the largest number comes infinity, as if it were the next number.
    const auto finite = [](std::uint32_t magnitude) {
      const auto infinite = ((1U << format<Type>::exponent) - 1U) << format<Type>::fraction;
      return magnitude < infinite ? value(magnitude)
                                  : std::ldexp(1.0, 1 << (format<Type>::exponent - 1));
    };
    const auto infinite = ((1U << format<Type>::exponent) - 1U) << format<Type>::fraction;
    const auto magnitude = rounded.bits & 0x7fffU;
    const double wanted = std::abs(static_cast<double>(x));
    if (magnitude == infinite && wanted >= finite(infinite)) return;
    const double distance = std::abs(wanted - finite(magnitude));
    for (const auto other : {magnitude - 1, magnitude + 1}) {
      if (other > infinite) continue;  // below 0 or beyond infinity
      const double away = std::abs(wanted - finite(other));
      EXPECT_TRUE(distance < away || (distance == away && magnitude % 2 == 0)) << x;
    }
  }
};
using types = ::testing::Types<f16, bf16>;
TYPED_TEST_SUITE(float16, types);

TYPED_TEST(float16, has_the_values_of_its_format) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    TypeParam number;
    number.bits = static_cast<std::uint16_t>(bits);
    const auto expected = this->value(bits);
    const auto seen = static_cast<float>(number);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(seen));
      ASSERT_TRUE(std::isnan(this->value(TypeParam(seen).bits)));
    } else {
      ASSERT_EQ(static_cast<double>(seen), expected);
      ASSERT_EQ(std::signbit(seen), std::signbit(expected));
      ASSERT_EQ(TypeParam(seen), number);
    }
  }
}

TYPED_TEST(float16, rounds_to_the_nearest_value) {
  auto random = make_generator();
  for (int i = 0; i < 500'000; ++i) {
    this->expect_nearest(detail::float_of(static_cast<std::uint32_t>(random())));
    // Exactly between two neighbours, and beside that.
    TypeParam low;
    low.bits = static_cast<std::uint16_t>(random() & 0x7fffU);
    TypeParam high;
    high.bits = static_cast<std::uint16_t>(low.bits + 1U);
    const double middle = (this->value(low.bits) + this->value(high.bits)) / 2;
    if (!std::isfinite(middle)) continue;
    const auto tie = static_cast<float>(middle);
    this->expect_nearest(tie);
    this->expect_nearest(std::nextafter(tie, 0.0F));
    this->expect_nearest(std::nextafter(tie, INFINITY));
  }
  for (const float x :
       {0.0F, -0.0F, 65504.0F, 65519.99F, 65520.0F, 3.4e38F, INFINITY, -INFINITY, NAN,
        std::numeric_limits<float>::denorm_min(), 0x1p-24F, 0x1p-25F, 0x1.8p-25F})
    this->expect_nearest(x);
}

}  // namespace
}  // namespace sluice::test
