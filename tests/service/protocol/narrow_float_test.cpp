// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/narrow_float.hpp"

#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

namespace sluice::service {
namespace {

struct format {
  const char* name;
  std::uint16_t (*narrow)(double) noexcept;
  float (*widen)(std::uint16_t) noexcept;
  std::uint16_t infinity;
};

class narrow_float : public ::testing::TestWithParam<format> {};

TEST_P(narrow_float, keeps_every_value) {
  for (unsigned i = 0; i <= 0xffff; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = GetParam().widen(bits);
    if (std::isnan(value)) {
      ASSERT_GT(bits & 0x7fff, GetParam().infinity);
    } else if (std::isinf(value)) {
      ASSERT_EQ(bits & 0x7fff, GetParam().infinity);
    } else {
      ASSERT_EQ(GetParam().narrow(value), bits) << value;
    }
  }
}

TEST_P(narrow_float, rounds_to_the_nearest_value_and_ties_to_even) {
  const auto& [name, narrow, widen, infinity] = GetParam();
  for (std::uint16_t bits = 0; bits + 1 < infinity; ++bits) {
    const double lower = widen(bits);
    const double upper = widen(static_cast<std::uint16_t>(bits + 1));
    const double middle = (lower + upper) / 2;
    const auto even = static_cast<std::uint16_t>(bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(narrow(middle), even) << middle;
    ASSERT_EQ(narrow(-middle), even | 0x8000) << middle;
    ASSERT_EQ(narrow(std::nextafter(middle, lower)), bits) << middle;
    ASSERT_EQ(narrow(std::nextafter(middle, upper)), bits + 1) << middle;
  }
}

TEST_P(narrow_float, takes_the_nearer_of_two_neighbours) {
  const auto& [name, narrow, widen, infinity] = GetParam();
  auto generator = test::make_generator();
  const double largest = widen(static_cast<std::uint16_t>(infinity - 1));
  std::uniform_real_distribution<double> exponent(-160, std::log2(largest));
  for (int i = 0; i < 20000; ++i) {
    const double value = std::exp2(exponent(generator));
    const auto bits = narrow(value);
    const double distance = std::fabs(widen(bits) - value);
    if (bits > 0) {
      ASSERT_LE(distance, std::fabs(widen(static_cast<std::uint16_t>(bits - 1)) - value));
    }
    if (bits + 1 < infinity) {
      ASSERT_LE(distance, std::fabs(widen(static_cast<std::uint16_t>(bits + 1)) - value));
    }
  }
}

TEST_P(narrow_float, becomes_infinite_half_a_step_above_the_largest_value) {
  const auto& [name, narrow, widen, infinity] = GetParam();
  const double largest = widen(static_cast<std::uint16_t>(infinity - 1));
  const double limit = largest + (largest - widen(static_cast<std::uint16_t>(infinity - 2))) / 2;
  EXPECT_EQ(narrow(std::nextafter(limit, 0)), infinity - 1);
  EXPECT_EQ(narrow(limit), infinity);
  EXPECT_EQ(narrow(-limit), infinity | 0x8000);
  EXPECT_EQ(narrow(std::numeric_limits<double>::max()), infinity);
  EXPECT_EQ(narrow(std::numeric_limits<double>::denorm_min()), 0);
}

INSTANTIATE_TEST_SUITE_P(formats, narrow_float,
                         ::testing::Values(format{"fp16", to_fp16, from_fp16, 0x7c00},
                                           format{"bf16", to_bf16, from_bf16, 0x7f80}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace sluice::service
