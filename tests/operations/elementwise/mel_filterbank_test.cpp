// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/elementwise/mel_reference.hpp"
#include "tests/support/relative_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/mel_filterbank.hpp>
#include <sluice/runtime/error.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <random>
#include <string>
#include <vector>

namespace sluice {
namespace {

std::vector<float> filters_of(double rate, std::int64_t n_fft, std::int64_t n_mels, double fmin,
                              double fmax) {
  return mel_filterbank(
             {.sample_rate = rate, .n_fft = n_fft, .n_mels = n_mels, .fmin = fmin, .fmax = fmax})
      .to_vector<float>();
}
std::vector<float> window_of(std::int64_t n) {
  return hann_window(n).to_vector<float>();
}

void expect_reference(double rate, std::int64_t n_fft, std::int64_t n_mels, double fmin,
                      double fmax) {
  SCOPED_TRACE(std::to_string(rate) + " Hz, n_fft " + std::to_string(n_fft) + ", " +
               std::to_string(n_mels) + " mels, " + std::to_string(fmin) + " to " +
               std::to_string(fmax) + " Hz");
  const std::vector<float> weights = filters_of(rate, n_fft, n_mels, fmin, fmax);
  const std::vector<double> reference = test::reference_filterbank(rate, n_fft, n_mels, fmin, fmax);
  ASSERT_EQ(weights.size(), reference.size());
  double largest = 0;
  for (const double weight : reference) largest = std::max(largest, weight);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    ASSERT_NEAR(weights[i], reference[i], 1e-7 * largest) << i;
    ASSERT_GE(weights[i], 0.0F);
  }
  if (largest > 0) {
    EXPECT_LE(test::relative_error(weights, reference), 1e-7);
  }
}

TEST(mel_filterbanks, AgreesWithTheReference) {
  for (const double rate : {8000.0, 16000.0, 22050.0, 44100.0, 48000.0, 11027.0, 7.0})
    for (const std::int64_t n_fft : {256, 257, 400, 1023, 2048})
      for (const std::int64_t n_mels : {1, 40, 128})
        expect_reference(rate, n_fft, n_mels, 0, rate / 2);
  expect_reference(48000, 4096, 229, 30, 17000);
  expect_reference(16000, 512, 80, 1000, 8000);
  expect_reference(16000, 512, 80, 0, 1000);
  expect_reference(8000, 1, 3, 0, 4000);
}

TEST(mel_filterbanks, AgreesWithTheReferenceAtRandom) {
  auto generator = test::make_generator();
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<>(low, high)(generator);
  };
  for (int round = 0; round < 30; ++round) {
    const double rate = std::floor(uniform(1000, 192000));
    const double fmin = uniform(0, rate / 4);
    const double fmax = uniform(fmin + 1, rate / 2);
    expect_reference(rate, std::uniform_int_distribution<std::int64_t>(1, 2000)(generator),
                     std::uniform_int_distribution<std::int64_t>(1, 150)(generator), fmin, fmax);
  }
}

/// Values of librosa.filters.mel(sr=22050, n_fft=2048), version 0.11.
TEST(mel_filterbanks, KnownValues) {
  const std::vector<float> weights = filters_of(22050, 2048, 128, 0, 11025);
  ASSERT_EQ(weights.size(), 128U * 1025U);
  EXPECT_FLOAT_EQ(weights[0 * 1025 + 1], 0.0161828529F);
  EXPECT_FLOAT_EQ(weights[0 * 1025 + 3], 0.028990088F);
  EXPECT_FLOAT_EQ(weights[1 * 1025 + 3], 0.00977923535F);
  EXPECT_FLOAT_EQ(weights[1 * 1025 + 5], 0.0353937037F);
  EXPECT_FLOAT_EQ(weights[40 * 1025 + 96], 0.000401402009F);
  EXPECT_FLOAT_EQ(weights[40 * 1025 + 99], 0.0295276381F);
  EXPECT_FLOAT_EQ(weights[100 * 1025 + 474], 0.000305153953F);
  EXPECT_FLOAT_EQ(weights[100 * 1025 + 487], 0.00675350893F);
  EXPECT_FLOAT_EQ(weights[127 * 1025 + 971], 7.18481533e-06F);
  EXPECT_FLOAT_EQ(weights[127 * 1025 + 997], 0.00348525052F);
}

/// HTK's scale without a norm, by its definition: peaks of 1 at equal distances in mel.
TEST(mel_filterbanks, HaveTheScaleOfHtk) {
  auto generator = test::make_generator();
  for (int round = 0; round < 10; ++round) {
    const double rate = std::floor(std::uniform_real_distribution<>(4000, 48000)(generator));
    const auto n_fft = std::uniform_int_distribution<std::int64_t>(200, 1500)(generator);
    const auto n_mels = std::uniform_int_distribution<std::int64_t>(1, 60)(generator);
    const double fmin = std::uniform_real_distribution<>(0, rate / 8)(generator);
    const auto filters = mel_filterbank({.sample_rate = rate,
                                         .n_fft = n_fft,
                                         .n_mels = n_mels,
                                         .fmin = fmin,
                                         .scale = mel_scale::htk,
                                         .normalized = false});
    const auto bins = n_fft / 2 + 1;
    ASSERT_EQ(filters.shape(), (extents{n_mels, bins}));
    const auto weights = filters.values<float>();
    const auto mel = [](long double f) {
      return 1127.01048033L * std::log1p(f / 700.0L);
    };
    const auto first = mel(fmin);
    const auto step = (mel(rate / 2) - first) / static_cast<long double>(n_mels + 1);
    const auto edge = [&](std::int64_t i) {
      return 700.0L * std::expm1((first + step * static_cast<long double>(i)) / 1127.01048033L);
    };
    for (std::int64_t band = 0; band < n_mels; ++band) {
      for (std::int64_t bin = 0; bin < bins; ++bin) {
        const auto hertz = static_cast<long double>(bin) * rate / static_cast<long double>(n_fft);
        const auto rising = (hertz - edge(band)) / (edge(band + 1) - edge(band));
        const auto falling = (edge(band + 2) - hertz) / (edge(band + 2) - edge(band + 1));
        const auto height = std::max(0.0L, std::min(rising, falling));
        ASSERT_NEAR(weights[static_cast<std::size_t>(band * bins + bin)],
                    static_cast<double>(height), 1e-5)
            << band << ", " << bin;
      }
    }
  }
  EXPECT_NEAR(hertz_to_mel(1000, mel_scale::htk), 1000, 0.02);
  EXPECT_NEAR(hertz_to_mel(1000), 15, 1e-12);
}

TEST(mel_filterbanks, RefusesWhatCannotBe) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  const auto refuse = [](const char* name, double rate, std::int64_t n_fft, std::int64_t n_mels,
                         double fmin, double fmax) {
    try {
      static_cast<void>(filters_of(rate, n_fft, n_mels, fmin, fmax));
      ADD_FAILURE() << "accepted: " << name;
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::invalid_argument);
      EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
    }
  };
  refuse("fmax", 16000, 512, 40, 0, 8000.5);
  refuse("fmin", 16000, 512, 40, 4000, 4000);
  refuse("too close", 16000, 512, 40, std::nextafter(4000.0, 0.0), 4000);
  refuse("too close", 16000, 512, 40, 0, 1e-320);
  refuse("fmin", 16000, 512, 40, 5000, 4000);
  refuse("fmin", 16000, 512, 40, -1, 4000);
  refuse("fmin", 16000, 512, 40, nan, 4000);
  refuse("fmax", 16000, 512, 40, 0, nan);
  refuse("fmax", 16000, 512, 40, 0, infinite);
  refuse("fmax", 16000, 512, 40, 0, -infinite);
  refuse("n_mels", 16000, 512, 0, 0, 8000);
  refuse("n_mels", 16000, 512, -3, 0, 8000);
  refuse("n_fft", 16000, 0, 40, 0, 8000);
  refuse("n_fft", 16000, -1, 40, 0, 8000);
  refuse("sample_rate", 0, 512, 40, 0, 8000);
  refuse("sample_rate", nan, 512, 40, 0, 8000);
  refuse("sample_rate", infinite, 512, 40, 0, 8000);
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  refuse("memory", 16000, largest, 40, 0, 8000);
  refuse("memory", 16000, 512, largest, 0, 8000);
}

TEST(hann_windows, AgreesWithTheDefinition) {
  for (const std::int64_t n : {2, 3, 5, 256, 400, 401, 2048, 4095}) {
    const std::vector<float> window = window_of(n);
    ASSERT_EQ(window.size(), static_cast<std::size_t>(n));
    for (std::int64_t k = 0; k < n; ++k)
      EXPECT_NEAR(
          window[static_cast<std::size_t>(k)],
          static_cast<double>(0.5L - 0.5L * std::cos(2 * std::numbers::pi_v<long double> * k / n)),
          6e-8)
          << k << " of " << n;
  }
}

TEST(hann_windows, IsPeriodicAndNotSymmetric) {
  const std::vector<float> window = window_of(8);
  EXPECT_EQ(window[0], 0.0F);
  EXPECT_EQ(window[4], 1.0F);
  EXPECT_GT(window[7], 0.1F);
  // One period of the window, shifted by half and added, is constant.
  for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(window[k] + window[k + 4], 1.0F, 1e-7F);
}

TEST(hann_windows, SmallSizes) {
  EXPECT_TRUE(window_of(0).empty());
  EXPECT_EQ(window_of(1), std::vector<float>{1.0F});
  EXPECT_EQ(window_of(2), (std::vector<float>{0.0F, 1.0F}));
  EXPECT_THROW(static_cast<void>(window_of(-1)), error);
  EXPECT_THROW(static_cast<void>(window_of(std::int64_t{1} << 40U)), error);
}

}  // namespace
}  // namespace sluice
