// SPDX-License-Identifier: Apache-2.0
// The weights of scores, with each kind of vectors that the processor has.
#include "operations/dnn/attention_loops.hpp"

#include "tests/operations/every_vector_target.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace sluice::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

class attention_loops : public ::testing::Test {
 protected:
  float number(float smallest, float largest) {
    return std::uniform_real_distribution<float>(smallest, largest)(random_);
  }
  static std::int64_t padded(std::int64_t keys) {
    return (keys + host::score_padding - 1) / host::score_padding * host::score_padding;
  }

 private:
  std::mt19937_64 random_ = make_generator();
};

TEST_F(attention_loops, weights_of_visible_keys) {
  constexpr std::int64_t rows = 5;
  for (const std::int64_t keys : {1, 3, 15, 16, 17, 31, 64, 65, 100, 128}) {
    for (const std::int64_t growth : {0, 1}) {
      // The first row sees none, if each row sees one more.
      const auto visible = growth == 0 ? keys : std::max<std::int64_t>(keys - rows, -1);
      const auto row = padded(keys);
      std::vector<float> scores(static_cast<std::size_t>(rows * row));
      for (auto& score : scores) score = number(-20, 20);
      scores[static_cast<std::size_t>(row)] = -infinity;
      std::vector<float> before(rows);
      for (auto& maximum : before) maximum = number(-30, 30);
      before[2] = -infinity;
      for_each_vector_target([&] {
        auto weights = scores;
        auto maxima = before;
        std::vector<float> changes(rows);
        std::vector<double> sums(rows, -1);
        host::weigh_scores_f32({weights.data(), row, rows, keys, visible, growth}, maxima.data(),
                               changes.data(), sums.data());
        for (std::int64_t r = 0; r < rows; ++r) {
          SCOPED_TRACE(testing::Message() << "row " << r << " of " << keys << " keys");
          const auto count = std::clamp<std::int64_t>(visible + r * growth, 0, keys);
          const auto i = static_cast<std::size_t>(r);
          const float* const x = scores.data() + r * row;
          const float largest =
              std::max(before[i], *std::max_element(x, x + std::max<std::int64_t>(count, 1)));
          const float wanted_maximum = count == 0 ? before[i] : largest;
          const float shift = wanted_maximum == -infinity ? 0 : wanted_maximum;
          EXPECT_EQ(maxima[i], wanted_maximum);
          EXPECT_EQ(changes[i], before[i] - shift);
          double total = 0;
          for (std::int64_t c = 0; c < keys; ++c) {
            const double weight =
                c < count ? std::exp(static_cast<double>(x[c]) - static_cast<double>(shift)) : 0;
            total += weight;
            // The difference is rounded.
            EXPECT_NEAR(static_cast<double>(weights[static_cast<std::size_t>(r * row + c)]), weight,
                        weight * 0x1p-17);
          }
          EXPECT_NEAR(sums[i], total, total * 0x1p-17);
        }
      });
    }
  }
}

TEST_F(attention_loops, keep_nan_and_infinity) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::int64_t keys : {1, 16, 70}) {
    for (const float special : {nan, infinity}) {
      const auto row = padded(keys);
      std::vector<float> scores(static_cast<std::size_t>(2 * row), 0.5F);
      scores[static_cast<std::size_t>(keys - 1)] = special;
      for_each_vector_target([&] {
        auto weights = scores;
        std::vector<float> maxima(2, -infinity);
        std::vector<float> changes(2);
        std::vector<double> sums(2);
        host::weigh_scores_f32({weights.data(), row, 2, keys, keys, 0}, maxima.data(),
                               changes.data(), sums.data());
        EXPECT_TRUE(std::isnan(sums[0])) << special;
        EXPECT_EQ(sums[1], static_cast<double>(keys));
      });
    }
  }
}

}  // namespace
}  // namespace sluice::test
