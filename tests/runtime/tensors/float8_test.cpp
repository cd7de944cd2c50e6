// SPDX-License-Identifier: Apache-2.0
// The 8-bit types against their definition in double precision.
#include "tests/support/seed.hpp"

#include <sluice/runtime/float8.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace sluice::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// The number of a magnitude, from the definition of the formats.
template <class Type>
double defined_value(int magnitude);
template <>
double defined_value<e4m3>(int magnitude) {
  const int exponent = magnitude / 8;
  const int fraction = magnitude % 8;
  if (exponent == 15 && fraction == 7) return not_a_number;
  return exponent == 0 ? fraction / 8.0 * std::pow(2.0, -6)
                       : (1 + fraction / 8.0) * std::pow(2.0, exponent - 7);
}
template <>
double defined_value<e5m2>(int magnitude) {
  const int exponent = magnitude / 4;
  const int fraction = magnitude % 4;
  if (exponent == 31) return fraction == 0 ? infinity : not_a_number;
  return exponent == 0 ? fraction / 4.0 * std::pow(2.0, -14)
                       : (1 + fraction / 4.0) * std::pow(2.0, exponent - 15);
}

template <class Type>
class float8 : public ::testing::Test {
 protected:
  float8() {
    for (int magnitude = 0; magnitude < 128; ++magnitude) {
      const auto value = defined_value<Type>(magnitude);
      if (std::isfinite(value)) finite_.push_back(value);
    }
  }
  static Type number(std::uint32_t bits) {
    Type result;
    result.bits = static_cast<std::uint8_t>(bits);
    return result;
  }
  [[nodiscard]] double largest() const { return finite_.back(); }

  /// The magnitude of the nearest number, by search; 128 if it lies behind the largest one: as far
  /// from that as the next number would be.
  [[nodiscard]] std::size_t nearest(double wanted) const {
    auto numbers = finite_;
    numbers.push_back(2 * numbers.back() - numbers[numbers.size() - 2]);
    if (wanted >= numbers.back()) return 128;
    const auto above = static_cast<std::size_t>(
        std::upper_bound(numbers.begin(), numbers.end(), wanted) - numbers.begin());
    const auto below = above - 1;
    const auto to_below = wanted - numbers[below];
    const auto to_above = numbers[above] - wanted;
    const bool up = to_above < to_below || (to_above == to_below && above % 2 == 0);
    const auto chosen = up ? above : below;
    return chosen < finite_.size() ? chosen : 128;
  }
  void expect_nearest(float x) const {
    const Type saturated(x);
    const auto unsaturated = Type::unsaturated(x);
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(saturated)));
      EXPECT_TRUE(std::isnan(static_cast<float>(unsaturated)));
      return;
    }
    const auto magnitude = nearest(std::abs(static_cast<double>(x)));
    const bool negative = std::signbit(x);
    const auto with_sign = [&](double value) {
      return negative ? -value : value;
    };
    EXPECT_EQ((saturated.bits & 0x80U) != 0, negative) << x;
    EXPECT_EQ((unsaturated.bits & 0x80U) != 0, negative) << x;
    const auto seen = static_cast<double>(static_cast<float>(saturated));
    const auto other = static_cast<double>(static_cast<float>(unsaturated));
    if (magnitude < 128) {
      EXPECT_EQ(saturated.bits & 0x7fU, magnitude) << x;
      EXPECT_EQ(seen, with_sign(finite_[magnitude])) << x;
      EXPECT_EQ(unsaturated, saturated) << x;
    } else {
      EXPECT_EQ(seen, with_sign(largest())) << x;
      if (std::is_same_v<Type, e4m3>) {
        EXPECT_TRUE(std::isnan(other)) << x;
      } else {
        EXPECT_EQ(other, with_sign(infinity)) << x;
      }
    }
  }

  std::vector<double> finite_;  ///< by magnitude
};
using types = ::testing::Types<e4m3, e5m2>;
TYPED_TEST_SUITE(float8, types);

TYPED_TEST(float8, has_the_values_of_its_format) {
  EXPECT_EQ(this->largest(), (std::is_same_v<TypeParam, e4m3> ? 448 : 57344));
  for (std::uint32_t bits = 0; bits <= 0xff; ++bits) {
    const auto number = this->number(bits);
    const auto magnitude = defined_value<TypeParam>(static_cast<int>(bits & 0x7fU));
    const auto expected = bits >= 0x80 ? -magnitude : magnitude;
    const auto seen = static_cast<float>(number);
    ASSERT_EQ(std::signbit(seen), bits >= 0x80) << bits;
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(seen)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(seen)))) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(seen), expected) << bits;
      ASSERT_EQ(TypeParam::unsaturated(seen), number) << bits;
      if (std::isfinite(expected)) {
        ASSERT_EQ(TypeParam(seen), number) << bits;
      }
    }
  }
}

TYPED_TEST(float8, rounds_every_f16_to_the_nearest_value) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    f16 x;
    x.bits = static_cast<std::uint16_t>(bits);
    this->expect_nearest(static_cast<float>(x));
  }
}

TYPED_TEST(float8, rounds_ties_to_even) {
  for (std::size_t i = 0; i + 1 < this->finite_.size(); ++i) {
    const auto tie = static_cast<float>((this->finite_[i] + this->finite_[i + 1]) / 2);
    const auto even = this->finite_[i % 2 == 0 ? i : i + 1];
    EXPECT_EQ(static_cast<double>(static_cast<float>(TypeParam(tie))), even);
    for (const float x : {tie, std::nextafter(tie, 0.0F), std::nextafter(tie, INFINITY)}) {
      this->expect_nearest(x);
      this->expect_nearest(-x);
    }
  }
}

TYPED_TEST(float8, rounds_every_f32_to_the_nearest_value) {
  auto random = make_generator();
  for (int i = 0; i < 300'000; ++i) {
    this->expect_nearest(detail::float_of(static_cast<std::uint32_t>(random())));
    this->expect_nearest(std::ldexp(static_cast<float>(static_cast<std::int32_t>(random())),
                                    static_cast<int>(random() % 40U) - 52));
  }
  for (const float x : {0.0F,
                        -0.0F,
                        448.0F,
                        463.99997F,
                        464.0F,
                        464.00003F,
                        480.0F,
                        57344.0F,
                        61439.996F,
                        61440.0F,
                        65536.0F,
                        3.4e38F,
                        INFINITY,
                        -INFINITY,
                        NAN,
                        -NAN,
                        std::numeric_limits<float>::denorm_min(),
                        0x1p-10F,
                        0x1.8p-10F,
                        0x1p-17F,
                        0x1.8p-17F}) {
    this->expect_nearest(x);
  }
}

}  // namespace
}  // namespace sluice::test
