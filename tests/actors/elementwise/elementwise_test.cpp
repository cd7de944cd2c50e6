// SPDX-License-Identifier: Apache-2.0
#include "actors/elementwise/elementwise_library.hpp"
#include "tests/actors/library_test.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/relative_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>
#include <vector>

namespace sluice::test {
namespace {

class elementwise : public library_test<actors::make_elementwise_library> {
 protected:
  /// Queues `function` as one launch that writes `out`; what it reads was uploaded before.
  template <element Out, class Function>
  std::vector<Out> result_of(const gpu_ref<Out>& out, Function&& function) {
    launch_recorder recorder = launch_recorder::strict(stream());
    recorder.read_write(out);
    recorder.preflight();
    function();
    recorder.commit();
    return download(out, stream());
  }

  template <element T>
  gpu_ref<T> allocate(std::size_t count) {
    return runtime().allocate<T>(count, stream(), "test");
  }

  template <class T>
  T maximum_of(const std::vector<T>& values) {
    const auto in = upload(runtime(), stream(), values);
    const auto out = allocate<T>(1);
    return result_of(out, [&] {
      library_->maximum(element_type_v<T>, values.size(), in.data(), out.data());
    })[0];
  }

  template <class T>
  std::vector<T> decibels(const std::vector<T>& values, T reference,
                          const decibel_options& options) {
    const auto in = upload(runtime(), stream(), values);
    const auto ref = upload(runtime(), stream(), std::vector<T>{reference});
    const auto out = allocate<T>(values.size());
    return result_of(out, [&] {
      library_->power_to_decibel(element_type_v<T>, values.size(), in.data(), ref.data(), options,
                                 out.data());
    });
  }

  template <class T>
  void expect_frames(const frame_layout& layout, bool with_window);
  template <class T>
  void expect_power(std::size_t count);
  template <class T>
  void expect_maximum();
  template <class T>
  void expect_decibels();
};

// As NumPy would: pad, then cut.
template <class T>
void elementwise::expect_frames(const frame_layout& layout, bool with_window) {
  SCOPED_TRACE(::testing::Message()
               << layout.samples << " samples, n_fft " << layout.n_fft << ", hop " << layout.hop);
  auto generator = make_generator();
  const auto signal = random_values<T>(generator, layout.samples);
  const auto window = random_values<T>(generator, layout.n_fft);
  std::vector<T> padded(layout.n_fft / 2, T(0));
  padded.insert(padded.end(), signal.begin(), signal.end());
  padded.insert(padded.end(), layout.n_fft / 2, T(0));
  std::vector<T> expected;
  std::size_t frames = 0;
  for (std::size_t begin = 0; begin + layout.n_fft <= padded.size(); begin += layout.hop) {
    ++frames;
    for (std::size_t j = 0; j < layout.n_fft; ++j) {
      expected.push_back(with_window ? padded[begin + j] * window[j] : padded[begin + j]);
    }
  }
  ASSERT_EQ(frame_count(layout), frames);

  const auto in = upload(runtime(), stream(), signal);
  const auto factors = upload(runtime(), stream(), window);
  const auto out = upload(runtime(), stream(), std::vector<T>(expected.size() + 1, T(77)));
  expected.push_back(77);
  EXPECT_TRUE(result_of(out, [&] {
                library_->frame(element_type_v<T>, layout, in.data(),
                                with_window ? factors.data() : nullptr, out.data());
              }) == expected);
}

TEST_P(elementwise, frames_are_cut_from_the_padded_signal) {
  const std::vector<frame_layout> layouts{
      {.samples = 5000, .n_fft = 2048, .hop = 512}, {.samples = 4999, .n_fft = 512, .hop = 441},
      {.samples = 100, .n_fft = 16, .hop = 1},      {.samples = 100, .n_fft = 16, .hop = 20},
      {.samples = 100, .n_fft = 15, .hop = 4},      {.samples = 3, .n_fft = 64, .hop = 7},
      {.samples = 1, .n_fft = 1, .hop = 1},         {.samples = 1, .n_fft = 2, .hop = 3},
      {.samples = 40000, .n_fft = 4, .hop = 1}};
  for (const frame_layout& layout : layouts) {
    for (const bool with_window : {true, false}) {
      expect_frames<float>(layout, with_window);
      expect_frames<double>(layout, with_window);
    }
  }
}

template <class T>
void elementwise::expect_power(std::size_t count) {
  auto generator = make_generator();
  const auto parts = random_values<T>(generator, 2 * count);
  std::vector<std::complex<T>> values(count);
  std::vector<T> expected(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = {parts[2 * i], parts[2 * i + 1]};
    const volatile T real = parts[2 * i] * parts[2 * i];
    const volatile T imaginary = parts[2 * i + 1] * parts[2 * i + 1];
    expected[i] = real + imaginary;
  }
  const auto in = upload(runtime(), stream(), values);
  const auto out = allocate<T>(count);
  EXPECT_TRUE(
      result_of(out, [&] { library_->power(element_type_v<T>, count, in.data(), out.data()); }) ==
      expected)
      << count;
}

TEST_P(elementwise, power_is_the_sum_of_two_squares_in_every_bit) {
  for (const std::size_t count : {1u, 2u, 255u, 256u, 257u, 3'000'001u}) {
    expect_power<float>(count);
    expect_power<double>(count);
  }
}

template <class T>
void elementwise::expect_maximum() {
  constexpr T nan = std::numeric_limits<T>::quiet_NaN();
  constexpr T infinite = std::numeric_limits<T>::infinity();
  auto generator = make_generator();
  for (const std::size_t count : {1u, 2u, 3u, 255u, 256u, 257u, 511u, 65'537u, 3'000'001u}) {
    auto values = random_values<T>(generator, count);
    EXPECT_EQ(maximum_of(values), *std::max_element(values.begin(), values.end())) << count;
    for (T& v : values) v = -std::abs(v) - 1;
    EXPECT_EQ(maximum_of(values), *std::max_element(values.begin(), values.end())) << count;

    const std::size_t anywhere = generator() % count;
    values[anywhere] = 5;
    EXPECT_EQ(maximum_of(values), T(5)) << anywhere << " of " << count;
    values[anywhere] = infinite;
    EXPECT_EQ(maximum_of(values), infinite);
    values[generator() % count] = nan;
    EXPECT_TRUE(std::isnan(maximum_of(values)));
  }
  EXPECT_EQ(maximum_of(std::vector<T>(700, -infinite)), -infinite);
  EXPECT_TRUE(std::signbit(maximum_of(std::vector<T>(700, T(-0.0)))));
  std::vector<T> zeros(700, T(-0.0));
  zeros[generator() % zeros.size()] = T(0.0);
  EXPECT_FALSE(std::signbit(maximum_of(zeros)));
}

TEST_P(elementwise, maximum_is_the_largest_wherever_it_is) {
  expect_maximum<float>();
  expect_maximum<double>();
}

template <class T>
void elementwise::expect_decibels() {
  auto generator = make_generator();
  for (const std::size_t count : {1u, 2u, 257u, 100'001u}) {
    auto values = random_values<T>(generator, count);
    for (T& v : values) v = std::pow(T(10), 12 * v);
    values[generator() % count] = 0;
    const T largest = *std::max_element(values.begin(), values.end());
    for (const decibel_options& options :
         {decibel_options{}, decibel_options{.amin = 1e-5, .top_db = 20},
          decibel_options{.top_db = 0},
          decibel_options{.top_db = std::numeric_limits<double>::infinity()}}) {
      for (const T reference : {largest, T(1), T(0)}) {
        const auto level = [&](T value) {
          return 10 * std::log10(std::max(static_cast<long double>(value),
                                          static_cast<long double>(static_cast<T>(options.amin))));
        };
        const auto computed = decibels(values, reference, options);
        std::vector<long double> expected(count);
        for (std::size_t i = 0; i < count; ++i) {
          expected[i] = std::max(level(values[i]) - level(reference),
                                 -static_cast<long double>(static_cast<T>(options.top_db)));
          // Two logarithms of up to a few hundred, each good to a few of their last places.
          const T bound = 2000 * std::numeric_limits<T>::epsilon();
          ASSERT_NEAR(static_cast<double>(computed[i]), static_cast<double>(expected[i]), bound)
              << values[i] << " relative to " << reference;
        }
        EXPECT_LE(relative_error(computed, expected), error_bound<T>());
      }
    }
    const auto relative = decibels(values, largest, {});
    EXPECT_EQ(*std::max_element(relative.begin(), relative.end()), T(0));
    EXPECT_GE(*std::min_element(relative.begin(), relative.end()), T(-80));
  }
  const T nan = std::numeric_limits<T>::quiet_NaN();
  EXPECT_TRUE(std::isnan(decibels<T>({1, nan}, 1, {})[1]));
  EXPECT_TRUE(std::isnan(decibels<T>({1, 2}, nan, {})[0]));
}

TEST_P(elementwise, decibels_follow_the_formula) {
  expect_decibels<float>();
  expect_decibels<double>();
}

TEST_P(elementwise, decibels_are_made_in_place_from_a_maximum_on_the_device) {
  auto generator = make_generator();
  auto values = random_values<float>(generator, 10'001);
  for (float& v : values) v *= v;
  const float largest = *std::max_element(values.begin(), values.end());
  const auto expected = decibels(values, largest, {});
  const auto data = upload(runtime(), stream(), values);
  const auto reference = allocate<float>(1);
  launch_recorder recorder = launch_recorder::strict(stream());
  recorder.read_write(data).write(reference);
  recorder.preflight();
  library_->maximum(element_type::f32, values.size(), data.data(), reference.data());
  library_->power_to_decibel(element_type::f32, values.size(), data.data(), reference.data(), {},
                             data.data());
  recorder.commit();
  EXPECT_EQ(download(data, stream()), expected);
}

TEST_P(elementwise, nothing_is_no_work) {
  library_->frame(element_type::f32, {.samples = 0, .n_fft = 4, .hop = 1}, nullptr, nullptr,
                  nullptr);
  library_->power(element_type::f64, 0, nullptr, nullptr);
  library_->power_to_decibel(element_type::f32, 0, nullptr, nullptr, {}, nullptr);
  stream().synchronize();
}

template <class Function>
void expect_refused(Function function) {
  EXPECT_TRUE(throws(errc::invalid_argument, "", function));
}

TEST_P(elementwise, arguments_are_checked) {
  const auto memory = allocate<double>(16);
  void* const any = memory.data();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  using enum element_type;
  expect_refused([&] { library_->power(c64, 1, any, any); });
  expect_refused([&] { library_->maximum(u32, 1, any, any); });
  expect_refused([&] { library_->maximum(f32, 0, any, any); });
  expect_refused(
      [&] { library_->frame(f32, {.samples = 4, .n_fft = 0, .hop = 1}, any, any, any); });
  expect_refused(
      [&] { library_->frame(f32, {.samples = 4, .n_fft = 2, .hop = 0}, any, any, any); });
  const auto decibel = [&](element_type type, const decibel_options& options) {
    library_->power_to_decibel(type, 1, any, any, options, any);
  };
  expect_refused([&] { decibel(f32, {.amin = 0}); });
  expect_refused([&] { decibel(f32, {.amin = 1e-100}); });
  expect_refused([&] { decibel(f64, {.amin = nan}); });
  expect_refused([&] { decibel(f64, {.top_db = -1}); });
  expect_refused([&] { decibel(f64, {.top_db = nan}); });
}

INSTANTIATE_TEST_SUITE_P(devices, elementwise, every_device(), parameter_name);

TEST(frame_count, refuses_what_overflows) {
  constexpr std::size_t huge = std::numeric_limits<std::size_t>::max() / 2;
  expect_refused([] { (void)frame_count({.samples = huge, .n_fft = 4, .hop = 1}); });
  expect_refused([] { (void)frame_count({.samples = 4, .n_fft = huge, .hop = 1}); });
  expect_refused([] { (void)frame_count({.samples = huge / 64, .n_fft = 4096, .hop = 1}); });
  EXPECT_EQ(frame_count({.samples = 22050, .n_fft = 2048, .hop = 512}), 44u);
}

}  // namespace
}  // namespace sluice::test
