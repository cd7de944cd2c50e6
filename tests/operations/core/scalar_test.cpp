// SPDX-License-Identifier: Apache-2.0
#include "tests/support/expect_error.hpp"

#include <sluice/operations/scalar.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>

namespace sluice::test {
namespace {

using complex64 = std::complex<float>;
using complex128 = std::complex<double>;
constexpr auto inf = std::numeric_limits<double>::infinity();
constexpr auto nan = std::numeric_limits<double>::quiet_NaN();

TEST(scalar, becomes_the_nearest_number) {
  EXPECT_EQ(scalar(3).to<float>("x"), 3.0F);
  EXPECT_EQ(scalar(-3).to<double>("x"), -3.0);
  EXPECT_EQ(scalar(0.1F).to<float>("x"), 0.1F);
  EXPECT_EQ(scalar(0.1).to<float>("x"), 0.1F);
  EXPECT_EQ(scalar(0.1).to<double>("x"), 0.1);
  EXPECT_EQ(scalar(1e-60).to<float>("x"), 0.0F);
  EXPECT_EQ(scalar(0.5).to<complex64>("x"), complex64(0.5F, 0));
  EXPECT_EQ(scalar(complex128(1, -2)).to<complex128>("x"), complex128(1, -2));
  EXPECT_EQ(scalar(complex64(1, -2)).to<complex64>("x"), complex64(1, -2));
  EXPECT_EQ(scalar(complex128(4, 0)).to<float>("x"), 4.0F);
  // An integer beyond 2^53 is rounded once.
  EXPECT_EQ(scalar((std::int64_t{1} << 60) + 1).to<float>("x"), 1152921504606846976.0F);
}

TEST(scalar, keeps_integers) {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(scalar(most).to<std::uint64_t>("x"), most);
  EXPECT_EQ(scalar(least).to<std::int64_t>("x"), least);
  EXPECT_EQ(scalar(7).to<std::uint64_t>("x"), 7U);
  EXPECT_EQ(scalar(7U).to<std::int64_t>("x"), 7);
  EXPECT_TRUE(throws(errc::invalid_argument, "x: 18446744073709551615 is out of the range",
                     [] { (void)scalar(most).to<std::int64_t>("x"); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "x: -1 is negative",
                     [] { (void)scalar(-1).to<std::uint64_t>("x"); }));
  EXPECT_EQ(scalar(-3.0).to<std::int64_t>("x"), -3);
  EXPECT_EQ(scalar(-0x1p63).to<std::int64_t>("x"), least);
  EXPECT_EQ(scalar(0x1p63).to<std::uint64_t>("x"), std::uint64_t{1} << 63U);
  EXPECT_EQ(scalar(complex128(2, 0)).to<std::int64_t>("x"), 2);
  EXPECT_EQ(scalar(true).to<std::uint64_t>("x"), 1U);
  for (const double value : {0.5, -1e-300, std::nextafter(2.0, 3.0), inf, nan}) {
    EXPECT_TRUE(throws(errc::invalid_argument, "is not an integer",
                       [&] { (void)scalar(value).to<std::int64_t>("x"); }));
    EXPECT_TRUE(throws(errc::invalid_argument, "is not an integer",
                       [&] { (void)scalar(value).to<std::uint64_t>("x"); }));
  }
  for (const double value : {0x1p63, -0x1.8p63, 1e300}) {
    EXPECT_TRUE(throws(errc::invalid_argument, "is out of the range of i64",
                       [&] { (void)scalar(value).to<std::int64_t>("x"); }));
  }
  EXPECT_TRUE(throws(errc::invalid_argument, "x: -1 is negative",
                     [] { (void)scalar(-1.0).to<std::uint64_t>("x"); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "is out of the range of u64",
                     [] { (void)scalar(0x1p64).to<std::uint64_t>("x"); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "x: 0+1i is not an integer",
                     [] { (void)scalar(complex128(0, 1)).to<std::uint64_t>("x"); }));
}

TEST(scalar, becomes_the_nearest_number_of_8_bits) {
  const auto as_e4m3 = [](const scalar& value) {
    return static_cast<float>(value.to<e4m3>("x"));
  };
  const auto as_e5m2 = [](const scalar& value) {
    return static_cast<float>(value.to<e5m2>("x"));
  };
  EXPECT_EQ(as_e4m3(464), 448);
  EXPECT_EQ(as_e4m3(0.1), 0.1015625F);
  // Beside the middle of two numbers, which it is in f32.
  EXPECT_EQ(as_e4m3(1.0625 + 0x1p-40), 1.125F);
  EXPECT_EQ(as_e5m2(1.125 + 0x1p-40), 1.25F);
  EXPECT_EQ(as_e5m2(-61439.0), -57344);
  EXPECT_EQ(as_e5m2(1e-10), 0);
  EXPECT_TRUE(throws(errc::invalid_argument, "x: 465 is out of the range of e4m3",
                     [] { (void)scalar(465).to<e4m3>("x"); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "x: -61440 is out of the range of e5m2",
                     [] { (void)scalar(-61440.0).to<e5m2>("x"); }));
  EXPECT_TRUE(
      throws(errc::invalid_argument, "is not finite", [] { (void)scalar(inf).to<e5m2>("x"); }));
}

TEST(scalar, refuses_what_the_type_cannot_hold) {
  for (const auto value : {inf, -inf, nan}) {
    EXPECT_TRUE(throws(errc::invalid_argument,
                       "alpha: ", [&] { (void)scalar(value).to<double>("alpha"); }));
    EXPECT_TRUE(throws(errc::invalid_argument, "is not finite",
                       [&] { (void)scalar(value).to<complex64>("alpha"); }));
    EXPECT_TRUE(throws(errc::invalid_argument, "is not finite",
                       [&] { (void)scalar(complex128(0, value)).to<complex128>("alpha"); }));
  }
  EXPECT_TRUE(throws(errc::invalid_argument, "alpha: 1e+300 is out of the range of f32",
                     [] { (void)scalar(1e300).to<float>("alpha"); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "is out of the range of f32",
                     [] { (void)scalar(complex128(0, -1e300)).to<complex64>("alpha"); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "alpha: 1-2i has an imaginary part",
                     [] { (void)scalar(complex128(1, -2)).to<double>("alpha"); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "has an imaginary part",
                     [] { (void)scalar(complex128(1, 1e-300)).to<float>("alpha"); }));
}

TEST(scalar, compares_number_and_kind) {
  EXPECT_EQ(scalar(1), scalar(1));
  EXPECT_NE(scalar(1), scalar(1.0));
  EXPECT_NE(scalar(nan), scalar(nan));
  EXPECT_TRUE(scalar(0).is_zero());
  EXPECT_TRUE(scalar(-0.0).is_zero());
  EXPECT_FALSE(scalar(complex128(0, 1)).is_zero());
}

}  // namespace
}  // namespace sluice::test
