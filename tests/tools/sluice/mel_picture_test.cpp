// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/mel_picture.hpp"

#include "tests/tools/io/files.hpp"

#include <sluice/operations/mel_filterbank.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace sluice::cli {
namespace {

using io::axis_tick;

std::vector<std::string> labels_of(const std::vector<axis_tick>& ticks) {
  std::vector<std::string> labels;
  for (const auto& tick : ticks) labels.push_back(tick.label);
  std::sort(labels.begin(), labels.end(),
            [](const std::string& a, const std::string& b) { return std::stod(a) < std::stod(b); });
  return labels;
}

/// The frequency at which the filter of a band peaks, rounded to the bins of 1 Hz.
double peak_of(std::span<const float> filters, std::int64_t bins, std::int64_t band) {
  const auto row = filters.begin() + band * bins;
  return static_cast<double>(std::max_element(row, row + bins) - row);
}

/// Holds the ticks against the filters that the command applies.
TEST(MelPicture, AFrequencyIsInTheRowOfTheBandThatItReaches) {
  constexpr double sample_rate = 32768;
  constexpr std::int64_t n_fft = 32768;  // bins of 1 Hz
  constexpr std::int64_t bins = n_fft / 2 + 1;
  struct range {
    std::int64_t bands;
    double fmin;
    double fmax;
  };
  for (const auto& [bands, fmin, fmax] :
       {range{128, 0, 16384}, range{40, 20, 8000}, range{7, 0, 900}, range{16, 4000, 4500},
        range{1, 0, 16384}}) {
    SCOPED_TRACE(std::to_string(bands) + " bands up to " + std::to_string(fmax));
    const auto filterbank = mel_filterbank(
        {.sample_rate = sample_rate, .n_fft = n_fft, .n_mels = bands, .fmin = fmin, .fmax = fmax});
    const auto filters = filterbank.values<float>();
    const auto ticks = frequency_ticks({.sample_rate = sample_rate,
                                        .hop = 512,
                                        .frames = 10,
                                        .bands = bands,
                                        .fmin = fmin,
                                        .fmax = fmax});
    ASSERT_FALSE(ticks.empty());
    for (const auto& tick : ticks) {
      SCOPED_TRACE(tick.label);
      EXPECT_GE(tick.position, 0);
      EXPECT_LE(tick.position, 1);
      // The peaks of the bands below and above the tick enclose its frequency.
      const double row = tick.position * static_cast<double>(bands) - 0.5;
      const double hertz = std::stod(tick.label);
      const auto below = static_cast<std::int64_t>(std::floor(row));
      if (below >= 0) {
        EXPECT_LE(peak_of(filters, bins, below) - 1, hertz);
      }
      if (below + 1 < bands) {
        EXPECT_GE(peak_of(filters, bins, below + 1) + 1, hertz);
      }
    }
  }
}

TEST(MelPicture, FrequenciesAreRound) {
  const auto labels = [](std::int64_t bands, double fmin, double fmax) {
    return labels_of(frequency_ticks(
        {.sample_rate = 1e6, .hop = 1, .frames = 1, .bands = bands, .fmin = fmin, .fmax = fmax}));
  };
  using texts = std::vector<std::string>;
  EXPECT_EQ(labels(128, 0, 24000),
            (texts{"100", "500", "1000", "2000", "3000", "5000", "10000", "20000"}));
  EXPECT_EQ(labels(128, 0, 4000), (texts{"100", "300", "500", "1000", "2000", "3000"}));
  EXPECT_EQ(labels(64, 3000, 4500),
            (texts{"3200", "3400", "3600", "3800", "4000", "4200", "4400"}));
  EXPECT_EQ(labels(64, 0.1, 0.5), (texts{"0.2", "0.3", "0.4"}));
  EXPECT_LE(labels(1, 0, 500'000).size(), 16U);
}

TEST(MelPicture, TicksOfFrequenciesAreApart) {
  for (const double fmax : {100.0, 1000.0, 4000.0, 22050.0, 500'000.0})
    for (const std::int64_t bands : {1, 2, 128}) {
      const auto ticks = frequency_ticks(
          {.sample_rate = 1e6, .hop = 1, .frames = 1, .bands = bands, .fmin = 0, .fmax = fmax});
      for (auto one = ticks.begin(); one != ticks.end(); ++one)
        for (auto other = ticks.begin(); other != one; ++other)
          EXPECT_GE(std::abs(one->position - other->position), 0.06) << fmax << ", " << bands;
    }
}

/// Column i, of the frame that is centred on sample i * hop, has its centre at (i + 0.5) / frames.
TEST(MelPicture, TimesAreAtTheCentresOfTheirFrames) {
  const auto ticks = time_ticks(
      {.sample_rate = 1000, .hop = 100, .frames = 21, .bands = 1, .fmin = 0, .fmax = 500});
  using texts = std::vector<std::string>;
  EXPECT_EQ(labels_of(ticks),
            (texts{"0", "0.2", "0.4", "0.6", "0.8", "1", "1.2", "1.4", "1.6", "1.8", "2"}));
  for (std::size_t i = 0; i < ticks.size(); ++i)
    EXPECT_NEAR(ticks[i].position, (2.0 * static_cast<double>(i) + 0.5) / 21, 1e-12);
}

TEST(MelPicture, ExtremeLengths) {
  const auto times = [](std::int64_t frames) {
    return time_ticks(
        {.sample_rate = 48000, .hop = 512, .frames = frames, .bands = 1, .fmin = 0, .fmax = 1});
  };
  EXPECT_EQ(times(1).front().label, "0");
  EXPECT_DOUBLE_EQ(times(1).front().position, 0.5);
  for (const std::int64_t frames : {1, 2, 1000, 1'000'000'000}) {
    EXPECT_LE(times(frames).size(), 11U);
    for (const auto& tick : times(frames)) EXPECT_LE(tick.position, 1);
  }
}

TEST(MelPicture, WritesAPicture) {
  const test::temporary_folder folder;
  const std::vector<float> decibels{0, -10, -20, -30, -40, -50};
  const mel_axes axes{
      .sample_rate = 8000, .hop = 200, .frames = 3, .bands = 2, .fmin = 0, .fmax = 4000};
  write_mel_picture(folder / "one.png", "a/x.wav", decibels, axes);
  write_mel_picture(folder / "same.png", "b/x.wav", decibels, axes);
  write_mel_picture(folder / "other.png", "b/y.wav", decibels, axes);
  EXPECT_EQ(test::read_text(folder / "one.png"), test::read_text(folder / "same.png"));
  EXPECT_NE(test::read_text(folder / "one.png"), test::read_text(folder / "other.png"));
}

}  // namespace
}  // namespace sluice::cli
