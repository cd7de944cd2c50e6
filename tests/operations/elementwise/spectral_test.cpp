// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/elementwise/elements.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/relative_error.hpp"

#include <sluice/operations/reduce.hpp>
#include <sluice/operations/spectral.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace sluice::test {
namespace {

struct frames_case {
  std::int64_t samples = 1;
  std::int64_t n_fft = 1;
  std::int64_t hop = 1;
  std::int64_t window = 0;  ///< its size; 0: that of a frame
  pad_mode mode = pad_mode::constant;
};

/// The sample of a signal that stands at the index `i`, found step by step; -1: none.
std::int64_t sample_at(pad_mode mode, std::int64_t i, std::int64_t samples) {
  if (mode == pad_mode::constant) return i < 0 || i >= samples ? -1 : i;
  if (mode == pad_mode::edge) return std::clamp<std::int64_t>(i, 0, samples - 1);
  while (i < 0 || i >= samples) {
    if (mode == pad_mode::wrap) {
      i += i < 0 ? samples : -samples;
    } else {
      if (samples == 1) return 0;
      i = i < 0 ? -i : 2 * (samples - 1) - i;
    }
  }
  return i;
}

class spectral : public elementwise_test {
 protected:
  template <class T>
  void expect_frames(const frames_case& c, const extents& stack, bool with_window) {
    SCOPED_TRACE(::testing::Message()
                 << c.samples << " samples, n_fft " << c.n_fft << ", hop " << c.hop << ", window "
                 << c.window << ", mode " << static_cast<int>(c.mode));
    auto shape = stack;
    shape.push_back(c.samples);
    const auto signal = make(element_type_v<T>, shape);
    const auto window_size = c.window != 0 ? c.window : c.n_fft;
    const auto window = make(element_type_v<T>, {window_size});
    // As NumPy would: pad, then cut.
    const auto padded = c.samples + 2 * (c.n_fft / 2);
    std::int64_t frames = 0;
    while (frames * c.hop + c.n_fft <= padded) ++frames;
    auto y_shape = stack;
    y_shape.push_back(frames);
    y_shape.push_back(c.n_fft);
    frame_signal op{.signal = signal.view(), .hop = c.hop, .mode = c.mode};
    if (with_window) op.window = window.view();
    if (!with_window || c.window != 0 || coin()) op.n_fft = c.n_fft;
    const bool has_output = coin();
    const auto y = make(element_type_v<T>, y_shape);
    if (has_output) op.y = y.view();
    const auto result = run(test_executor(), op);
    ASSERT_EQ(result.shape(), y_shape);
    expect_elements(result, [&](const extents& index) -> number {
      auto position = index;
      const auto f = index[stack.size()];
      const auto j = index[stack.size() + 1];
      extents source;
      for (std::size_t d = 0; d < stack.size(); ++d) source.push_back(position[d]);
      const auto sample = sample_at(c.mode, f * c.hop + j - c.n_fft / 2, c.samples);
      source.push_back(sample);
      const T value = sample >= 0 ? static_cast<T>(signal[source].real()) : T(0);
      const auto k = j - (c.n_fft - window_size) / 2;
      const T factor =
          k >= 0 && k < window_size ? static_cast<T>(window[{k}].real()) : static_cast<T>(0);
      return with_window ? static_cast<T>(value * factor) : value;
    });
    if (has_output) expect_gaps_untouched(y);
  }

  template <class T>
  void expect_power() {
    for (int round = 0; round < 20; ++round) {
      const auto shape = random_shape();
      const auto x = make(element_type_v<std::complex<T>>, shape);
      const auto y = make(element_type_v<T>, shape);
      const bool has_output = coin();
      power_spectrum op{.x = x.view()};
      if (has_output) op.y = y.view();
      expect_elements(run(test_executor(), op), [&](const extents& i) -> number {
        const auto z = x[i];
        const volatile T real = static_cast<T>(z.real()) * static_cast<T>(z.real());
        const volatile T imaginary = static_cast<T>(z.imag()) * static_cast<T>(z.imag());
        return real + imaginary;
      });
      if (has_output) expect_gaps_untouched(y);
    }
  }

  template <class T>
  static long double level(long double value, double amin) {
    return 10 * std::log10(std::max(value, static_cast<long double>(static_cast<T>(amin))));
  }
  template <class T>
  void expect_decibels(const decibel_options& options) {
    for (int round = 0; round < 10; ++round) {
      const auto shape = random_shape(1);
      auto x = make(element_type_v<T>, shape);
      auto reference = make(element_type_v<T>, part_of(shape));
      std::vector<T> powers{0};
      for (int i = 0; i < 500; ++i) {
        powers.push_back(
            static_cast<T>(std::pow(10, std::uniform_real_distribution<>(-12, 12)(generator()))));
      }
      x.set(powers);
      std::shuffle(powers.begin(), powers.end(), generator());
      reference.set(powers);
      power_to_decibel op{.x = x.view(), .reference = reference.view(), .options = options};
      const auto y = make(element_type_v<T>, shape);
      const bool has_output = coin();
      if (has_output) op.y = y.view();
      expect_each(run(test_executor(), op), [&](const extents& i, const number& computed) {
        const auto wanted = std::max(
            level<T>(x[i].real(), options.amin) - level<T>(reference[i].real(), options.amin),
            -static_cast<long double>(static_cast<T>(options.top_db)));
        // Two logarithms of up to a few hundred, each good to a few of their last places.
        const auto bound = 2000 * static_cast<long double>(std::numeric_limits<T>::epsilon());
        return std::abs(computed.real() - wanted) <= bound
                   ? ::testing::AssertionSuccess()
                   : ::testing::AssertionFailure() << computed.real() << " is not " << wanted;
      });
      if (has_output) expect_gaps_untouched(y);
    }
  }
};

TEST_P(spectral, frames_are_cut_from_the_padded_signal) {
  const std::vector<frames_case> cases{
      {5000, 2048, 512}, {4999, 512, 441}, {100, 16, 1}, {100, 16, 20},  {100, 15, 4},
      {3, 64, 7},        {1, 1, 1},        {1, 2, 3},    {40'000, 4, 1}, {1, 7, 2}};
  for (const auto& c : cases) {
    for (const bool with_window : {true, false}) {
      expect_frames<float>(c, {}, with_window);
      expect_frames<double>(c, {}, with_window);
    }
  }
}

TEST_P(spectral, frames_of_several_signals) {
  for (int round = 0; round < 30; ++round) {
    const frames_case c{between(1, 90), between(1, 20), between(1, 25)};
    expect_frames<float>(c, random_shape(0, 4), coin());
    expect_frames<double>(c, random_shape(0, 6), coin());
  }
}

TEST_P(spectral, frames_have_windows_of_any_size_and_what_the_mode_says_outside) {
  const auto modes = {pad_mode::constant, pad_mode::edge, pad_mode::reflect, pad_mode::wrap};
  for (const auto mode : modes) {
    for (int round = 0; round < 8; ++round) {
      frames_case c{between(1, 60), between(1, 40), between(1, 25)};
      c.mode = mode;
      c.window = coin() ? between(1, c.n_fft) : 0;
      expect_frames<float>(c, random_shape(0, 3), coin());
      expect_frames<double>(c, random_shape(0, 3), coin());
    }
    // Much longer frames than the signal, and one sample.
    expect_frames<float>({3, 64, 7, 20, mode}, {2}, true);
    expect_frames<float>({1, 9, 2, 4, mode}, {}, true);
    const auto x = make(element_type::f32, {2, 0});
    const auto y =
        run(test_executor(), frame_signal{.signal = x.view(), .n_fft = 4, .hop = 1, .mode = mode});
    EXPECT_EQ(y.shape(), (extents{2, 0, 4}));
  }
}

/// Values of `torch.stft(x, 8, hop_length=3, win_length=4, window=w, center=True)` before the
/// transform: torch pads by reflection, and the window stands in the middle.
TEST_P(spectral, frames_are_those_of_a_transform_with_reflection) {
  auto x = make_contiguous(element_type::f32, {6});
  x.set(std::vector<float>{1, 2, 3, 4, 5, 6});
  auto window = make_contiguous(element_type::f32, {4});
  window.set(std::vector<float>{1, 10, 100, 1000});
  const auto y = run(test_executor(), frame_signal{.signal = x.view(),
                                                   .window = window.view(),
                                                   .n_fft = 8,
                                                   .hop = 3,
                                                   .mode = pad_mode::reflect});
  const std::vector<std::vector<float>> expected{{0, 0, 3, 20, 100, 2000, 0, 0},
                                                 {0, 0, 2, 30, 400, 5000, 0, 0},
                                                 {0, 0, 5, 60, 500, 4000, 0, 0}};
  ASSERT_EQ(y.shape(), (extents{3, 8}));
  expect_elements(y, [&](const extents& i) -> number {
    return expected[static_cast<std::size_t>(i[0])][static_cast<std::size_t>(i[1])];
  });
}

TEST_P(spectral, there_are_no_frames_of_no_signal) {
  const auto x = make(element_type::f32, {2, 0});
  const auto y = run(test_executor(), frame_signal{.signal = x.view(), .n_fft = 4, .hop = 1});
  EXPECT_EQ(y.shape(), (extents{2, 0, 4}));
}

TEST_P(spectral, power_is_the_sum_of_two_squares_in_every_bit) {
  expect_power<float>();
  expect_power<double>();
}

TEST_P(spectral, decibels_follow_the_formula) {
  for (const auto& options : {decibel_options{}, decibel_options{.amin = 1e-5, .top_db = 20},
                              decibel_options{.top_db = 0},
                              decibel_options{.top_db = std::numeric_limits<double>::infinity()}}) {
    expect_decibels<float>(options);
    expect_decibels<double>(options);
  }
}

TEST_P(spectral, decibels_are_made_in_place_from_a_maximum_on_the_device) {
  auto x = make_contiguous(element_type::f32, {128, 79});
  std::vector<float> powers;
  for (int i = 0; i < 5000; ++i) {
    powers.push_back(std::uniform_real_distribution<float>(0, 9)(generator()));
  }
  x.set(powers);
  const auto largest = run(test_executor(), reduce{.x = x.view(), .kind = reduction::max});
  EXPECT_EQ(largest.shape(), extents{});
  const auto y =
      run(test_executor(), power_to_decibel{.x = x.view(), .reference = largest, .y = x.view()});
  EXPECT_EQ(y, x.view());
  const long double reference = *std::max_element(powers.begin(), powers.end());
  long double loudest = -1000;
  expect_each(y, [&](const extents& i, const number& computed) {
    loudest = std::max(loudest, computed.real());
    const auto wanted =
        std::max(level<float>(x[i].real(), 1e-10) - level<float>(reference, 1e-10), -80.0L);
    return std::abs(computed.real() - wanted) <= 1e-3L;
  });
  EXPECT_EQ(loudest, 0);
}

TEST_P(spectral, decibels_in_place_of_all_inputs) {
  const auto x = make(element_type::f32, {7, 8});
  const auto y =
      run(test_executor(), power_to_decibel{.x = x.view(), .reference = x.view(), .y = x.view()});
  EXPECT_EQ(y, x.view());
  expect_each(y, [](const extents&, const number& computed) { return computed.real() == 0; });
  expect_gaps_untouched(x);
}

TEST_P(spectral, decibels_of_no_number_are_no_number) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  auto x = make_contiguous(element_type::f32, {3});
  auto reference = make_contiguous(element_type::f32, {3});
  x.set(std::vector<float>{1, nan, 1});
  reference.set(std::vector<float>{1, 1, nan});
  expect_each(run(test_executor(), power_to_decibel{.x = x.view(), .reference = reference.view()}),
              [&](const extents& i, const number& computed) {
                return std::isnan(computed.real()) == (i[0] != 0);
              });
}

INSTANTIATE_TEST_SUITE_P(devices, spectral, every_device(), parameter_name);

TEST(frame_count, refuses_what_overflows) {
  constexpr std::size_t huge = std::numeric_limits<std::size_t>::max() / 2;
  const auto refused = [](const char* name, const frame_layout& layout) {
    EXPECT_TRUE(throws(errc::invalid_argument, std::string(name) + ": ",
                       [&] { (void)frame_count(layout); }));
  };
  refused("samples", {.samples = huge, .n_fft = 4, .hop = 1});
  refused("n_fft", {.samples = 4, .n_fft = huge, .hop = 1});
  refused("hop", {.samples = 4, .n_fft = 4, .hop = huge});
  refused("hop", {.samples = huge / 64, .n_fft = 4096, .hop = 1});
  refused("n_fft", {.samples = 4, .n_fft = 0, .hop = 1});
  refused("hop", {.samples = 4, .n_fft = 4, .hop = 0});
  EXPECT_EQ(frame_count({.samples = 22050, .n_fft = 2048, .hop = 512}), 44U);
  EXPECT_EQ(frame_count({.samples = 0, .n_fft = 4, .hop = 1}), 0U);
}

}  // namespace
}  // namespace sluice::test
