// SPDX-License-Identifier: Apache-2.0
// Every operation of the library actors through messages, on odd shapes and in every type, against
// double-precision references.
#include "tests/actors/gemm_request.hpp"
#include "tests/actors/references/conv2d.hpp"
#include "tests/actors/references/dft.hpp"
#include "tests/actors/references/gemm.hpp"
#include "tests/actors/session_test.hpp"
#include "tests/support/relative_error.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice::test {
namespace {

class operations : public session_test {
 protected:
  /// The values in device memory of which they are only a part, when `view` says so.
  template <class T>
  gpu_ref<T> put(const std::vector<T>& values, bool view) {
    if (!view) return s().put(values);
    const auto before = s().number<std::size_t>(1, 9);
    auto all = s().numbers<T>(values.size() + before + 3);
    std::copy(values.begin(), values.end(), all.begin() + static_cast<std::ptrdiff_t>(before));
    return s().put(all).subspan(before, values.size());
  }

  template <class T>
  void check_gemm();
  template <class Real>
  void check_fft();
  template <class T>
  void check_random();
  template <class T>
  void check_elementwise();
};

template <class T>
void operations::check_gemm() {
  const auto blas = device().blas();
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    auto shape = random_gemm_shape(s().generator(), 70);
    if (round % 8 == 0) shape.k = 0;
    if (round % 13 == 1) shape.k = 1201;
    const bool given = s().coin();
    const T alpha = round % 5 == 0 ? T{0} : static_cast<T>(0.75);
    const T beta = given && s().coin() ? static_cast<T>(-1.25) : T{0};
    const auto p = random_gemm<T>(with_gaps(shape, s().generator()), alpha, beta, s().generator());
    const auto a = put(p.a, s().coin());
    const auto b = put(p.b, s().coin());
    const auto c = given ? put(p.c, s().coin()) : gpu_ref<T>();
    const auto result = s().ask<gpu_ref<T>>(blas, gemm_request(p, a, b, c));
    if (given) {
      EXPECT_EQ(result, c);
      expect_memory_of_c(p, s().get(result));
    } else {
      expect_elements_of_c(p, s().get(result));
    }
    EXPECT_EQ(s().get(a), p.a);
    EXPECT_EQ(s().get(b), p.b);
  }
}

TEST_P(operations, gemm_f32) {
  check_gemm<float>();
}
TEST_P(operations, gemm_f64) {
  check_gemm<double>();
}

TEST_P(operations, gemm_reads_only_what_it_needs) {
  const auto blas = device().blas();
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  const auto no_numbers = s().put(std::vector<float>(12, nan));
  const auto c = s().put(std::vector<float>(12, 2.0F));
  const auto ask = [&](const gemm<float>& r) {
    return s().get(s().ask<gpu_ref<float>>(blas, r));
  };
  // alpha 0: A and B are not read and may be left out.
  EXPECT_EQ(ask({.m = 3, .n = 4, .k = 3, .alpha = 0, .beta = 0.5F, .c = c}),
            std::vector<float>(12, 1.0F));
  // k 0: the same.
  EXPECT_EQ(ask({.m = 3, .n = 4, .k = 0, .beta = 3, .c = c}), std::vector<float>(12, 3.0F));
  EXPECT_EQ(ask({.m = 3, .n = 4, .k = 0}), std::vector<float>(12, 0.0F));
  // beta 0: C is not read.
  EXPECT_EQ(ask({.m = 3, .n = 4, .k = 0, .c = no_numbers}), std::vector<float>(12, 0.0F));
  // Nothing to write.
  EXPECT_EQ(ask({.m = 0, .n = 4, .k = 3, .c = c}), std::vector<float>(12, 3.0F));
  EXPECT_TRUE(ask({.m = 5, .n = 0, .k = 3}).empty());
}

TEST_P(operations, conv2d_with_and_without_bias_relu_and_groups) {
  dnn_actor dnn;
  try {
    dnn = device().dnn();
  } catch (const error& e) {
    if (e.code() != errc::unsupported) throw;
    GTEST_SKIP() << e.what();
  }
  for (int round = 0; round < 24; ++round) {
    SCOPED_TRACE(round);
    auto d = random_conv2d_description(s().generator());
    if (round % 6 == 0) {
      // Depthwise.
      d.geometry.groups = 5;
      d.input.c = 5;
      d.filter.c = 1;
      d.filter.k = 5 * s().number<std::int64_t>(1, 5);
    }
    d.has_bias = round % 4 < 2;
    d.activation = round % 2 == 0 ? activation::relu : activation::none;
    d.math = round % 5 == 4 ? math_mode::tf32 : math_mode::f32;
    const auto p = random_conv2d(d, s().generator());
    const auto expected = conv2d_reference(p);
    conv2d r{.input = d.input,
             .filter = d.filter,
             .geometry = d.geometry,
             .x = put(p.x, s().coin()),
             .w = put(p.w, s().coin()),
             .bias = d.has_bias ? put(p.bias, s().coin()) : gpu_ref<float>(),
             .activation = d.activation,
             .math = d.math};
    if (s().coin()) r.y = put(s().numbers<float>(expected.size()), s().coin());
    const auto y = s().ask<gpu_ref<float>>(dnn, r);
    if (r.y) {
      EXPECT_EQ(y, r.y);
    }
    EXPECT_LE(relative_error(s().get(y), expected),
              r.math == math_mode::tf32 ? 1e-3 : error_bound<float>());
    EXPECT_EQ(s().get(r.x), p.x);
    EXPECT_EQ(s().get(r.w), p.w);
  }
  const auto empty = s().ask<gpu_ref<float>>(dnn, conv2d{.input = {0, 2, 5, 5},
                                                         .filter = {3, 2, 2, 2},
                                                         .x = s().put(std::vector<float>()),
                                                         .w = s().put(s().numbers<float>(24))});
  EXPECT_TRUE(empty.empty());
}

template <class Real>
void operations::check_fft() {
  using complex = std::complex<Real>;
  const auto fft = device().fft();
  const std::size_t lengths[] = {1, 2, 3, 4, 7, 16, 30, 37, 97, 100, 121, 128, 263, 360};
  for (const auto n : lengths) {
    SCOPED_TRACE(n);
    const auto batch = s().number<std::size_t>(1, 4);
    const auto bins = n / 2 + 1;
    const double scale = s().coin() ? 1.0 : 1.0 / static_cast<double>(n);
    const auto rows = [&](std::size_t length) {
      return length + s().number<std::size_t>(0, 3);
    };
    // Complex to complex, both ways.
    for (const auto direction : {fft_direction::forward, fft_direction::inverse}) {
      const fft_shape shape{n, batch, rows(n), rows(n)};
      const auto in = s().numbers<complex>((batch - 1) * shape.input_distance + n);
      const auto out = s().numbers<complex>((batch - 1) * shape.output_distance + n);
      const auto input = put(in, s().coin());
      const auto output = put(out, s().coin());
      const auto result =
          s().ask<gpu_ref<complex>>(fft, fft_c2c<Real>{direction, shape, input, output, scale});
      EXPECT_EQ(result, output);
      std::vector<std::complex<double>> expected(out.begin(), out.end());
      for (std::size_t b = 0; b < batch; ++b) {
        const auto row = dft(in.data() + b * shape.input_distance, n,
                             direction == fft_direction::forward ? -1 : 1);
        for (std::size_t k = 0; k < n; ++k)
          expected[b * shape.output_distance + k] = row[k] * scale;
      }
      EXPECT_LE(relative_error(s().get(result), expected), error_bound<Real>());
      EXPECT_EQ(s().get(input), in);
    }
    // Real to complex; rows of the input may overlap.
    {
      const fft_shape shape{n, batch, 2 * s().number<std::size_t>(1, n), 0};
      const auto in = s().numbers<Real>((batch - 1) * shape.input_distance + n);
      const auto input = s().put(in);
      const auto result = s().ask<gpu_ref<complex>>(fft, fft_r2c<Real>{shape, input, {}, scale});
      std::vector<std::complex<double>> expected;
      for (std::size_t b = 0; b < batch; ++b) {
        const auto row = dft(in.data() + b * shape.input_distance, n, -1);
        for (std::size_t k = 0; k < bins; ++k) expected.push_back(row[k] * scale);
      }
      EXPECT_LE(relative_error(s().get(result), expected), error_bound<Real>());
      EXPECT_EQ(s().get(input), in);
    }
    // Complex to real: the input stays as it is.
    {
      const fft_shape shape{n, batch, rows(bins), 0};
      const auto in = s().numbers<complex>((batch - 1) * shape.input_distance + bins);
      const auto input = s().put(in);
      const auto result = s().ask<gpu_ref<Real>>(fft, fft_c2r<Real>{shape, input, {}, scale});
      std::vector<double> expected;
      for (std::size_t b = 0; b < batch; ++b) {
        for (const double x : inverse_real_dft(in.data() + b * shape.input_distance, n))
          expected.push_back(x * scale);
      }
      EXPECT_LE(relative_error(s().get(result), expected), error_bound<Real>());
      EXPECT_EQ(s().get(input), in);
    }
  }
  const auto nothing = s().ask<gpu_ref<complex>>(
      fft,
      fft_c2c<Real>{.shape = {.length = 8, .batch = 0}, .input = s().put(s().numbers<complex>(1))});
  EXPECT_TRUE(nothing.empty());
}

TEST_P(operations, fft_f32) {
  check_fft<float>();
}
TEST_P(operations, fft_f64) {
  check_fft<double>();
}

/// More lengths than a library keeps plans for, all of them queued before the first is computed.
TEST_P(operations, fft_plans_that_are_pushed_out_serve_what_was_queued_with_them) {
  constexpr std::size_t lengths = 300;
  const auto fft = device().fft();
  const auto in = s().numbers<std::complex<double>>(lengths);
  const auto input = s().put(in);
  gate g;
  // A GPU may have to come to rest to load a plan's kernels.
  if (s().on_host()) s().hold(g, input);
  std::vector<caf::message> requests;
  for (std::size_t n = 1; n <= lengths; ++n) {
    requests.push_back(caf::make_message(fft_c2c<double>{.shape = {.length = n}, .input = input}));
  }
  const auto to = s().send<gpu_ref<std::complex<double>>>(untyped(fft), std::move(requests));
  if (s().on_host()) {
    await([&] { return s().service()->engine().pending() >= max_in_flight; });
  }
  g.open();
  const auto got = to->wait();
  for (std::size_t n = 1; n <= lengths; ++n) {
    ASSERT_TRUE(succeeded(got[n - 1]));
    ASSERT_LE(relative_error(s().get(*got[n - 1].value), dft(in.data(), n, -1)), 1e-12);
  }
}

template <class T>
void operations::check_random() {
  const auto rng = device().rng();
  const auto seed = s().generator()();
  // Across a place where cuRAND's order takes a step.
  const std::uint64_t start = std::uint64_t{262'144} * s().number<std::uint64_t>(1, 5) - 2'000;
  constexpr std::size_t count = 5'000;
  const auto whole =
      s().get(s().ask<gpu_ref<T>>(rng, random_uniform<T>{.range = {seed, start, count}}));
  const auto normal =
      s().get(s().ask<gpu_ref<T>>(rng, random_normal<T>{.range = {seed, start, count}}));
  EXPECT_GT(*std::min_element(whole.begin(), whole.end()), T{0});
  EXPECT_LE(*std::max_element(whole.begin(), whole.end()), T{1});
  double sum = 0;
  double squares = 0;
  for (const T z : normal) {
    sum += static_cast<double>(z);
    squares += static_cast<double>(z) * static_cast<double>(z);
  }
  EXPECT_LT(std::abs(sum / count), 0.15);  // ten standard deviations
  EXPECT_LT(std::abs(squares / count - 1), 0.2);
  for (int i = 0; i < 12; ++i) {
    const auto first = s().number<std::size_t>(0, count);
    const auto length = s().number<std::size_t>(0, count - first);
    const auto begin = static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(length);
    const random_range range{seed, start + first, length};
    const auto output = put(s().numbers<T>(length + 2), s().coin()).subspan(1, length);
    const auto uniform = s().ask<gpu_ref<T>>(rng, random_uniform<T>{range, output});
    EXPECT_EQ(uniform, output);
    EXPECT_EQ(s().get(uniform), std::vector<T>(whole.begin() + begin, whole.begin() + end));
    const auto shifted = s().get(s().ask<gpu_ref<T>>(rng, random_normal<T>{range, 3.5, 0.25}));
    std::vector<double> expected;
    for (std::size_t j = 0; j < length; ++j)
      expected.push_back(static_cast<double>(normal[first + j]) * 0.25 + 3.5);
    EXPECT_LE(relative_error(shifted, expected), error_bound<T>());
  }
}

TEST_P(operations, random_numbers_f32) {
  check_random<float>();
}
TEST_P(operations, random_numbers_f64) {
  check_random<double>();
}

TEST_P(operations, random_bits_are_the_numbers_of_the_uniform_ones) {
  const auto rng = device().rng();
  const random_range range{s().generator()(), s().generator()() >> 1U, 4'000};
  const auto bits = s().get(s().ask<gpu_ref<std::uint32_t>>(rng, random_bits{.range = range}));
  const auto numbers = s().get(s().ask<gpu_ref<float>>(rng, random_uniform<float>{.range = range}));
  for (std::size_t i = 0; i < range.count; ++i)
    ASSERT_EQ(numbers[i], static_cast<float>(bits[i]) * 0x1p-32F + 0x1p-33F);
}

template <class T>
void operations::check_elementwise() {
  using complex = std::complex<T>;
  const auto elementwise = device().elementwise();
  const auto bound = error_bound<T>();
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    // Frames.
    const frame_layout layout{s().number<std::size_t>(64, 999), 2 * s().number<std::size_t>(1, 32),
                              s().number<std::size_t>(1, 50)};
    const auto signal = s().numbers<T>(layout.samples);
    const auto window = round % 2 == 0 ? s().numbers<T>(layout.n_fft) : std::vector<T>();
    const auto frames = s().ask<gpu_ref<T>>(
        elementwise,
        frame_signal<T>{.layout = layout,
                        .signal = put(signal, s().coin()),
                        .window = window.empty() ? gpu_ref<T>() : put(window, s().coin())});
    std::vector<double> expected;
    for (std::size_t f = 0; f < 1 + layout.samples / layout.hop; ++f) {
      for (std::size_t j = 0; j < layout.n_fft; ++j) {
        const auto at = static_cast<std::ptrdiff_t>(f * layout.hop + j) -
                        static_cast<std::ptrdiff_t>(layout.n_fft / 2);
        const bool inside = at >= 0 && at < static_cast<std::ptrdiff_t>(layout.samples);
        const double value = inside ? static_cast<double>(signal[static_cast<std::size_t>(at)]) : 0;
        expected.push_back(window.empty() ? value : value * static_cast<double>(window[j]));
      }
    }
    EXPECT_LE(relative_error(s().get(frames), expected), bound);

    // Power, its maximum, decibels.
    const auto count = s().number<std::size_t>(1, 7'000);
    auto spectrum = s().numbers<complex>(count);
    spectrum[count / 2] = 0;  // falls below amin
    const auto power =
        s().ask<gpu_ref<T>>(elementwise, power_spectrum<T>{.input = put(spectrum, s().coin())});
    std::vector<double> powers;
    for (const auto& z : spectrum) powers.push_back(std::norm(std::complex<double>(z)));
    EXPECT_LE(relative_error(s().get(power), powers), bound);

    const auto largest = s().ask<gpu_ref<T>>(elementwise, maximum<T>{.input = power});
    const auto power_values = s().get(power);
    EXPECT_EQ(s().get(largest),
              std::vector<T>{*std::max_element(power_values.begin(), power_values.end())});

    const decibel_options options{1e-6, round % 3 == 0 ? 30.0 : 80.0};
    const auto reference = static_cast<double>(s().get(largest).front());
    std::vector<double> decibels;
    for (const T p : power_values) {
      decibels.push_back(std::max(10 * std::log10(std::max(static_cast<double>(p), options.amin)) -
                                      10 * std::log10(std::max(reference, options.amin)),
                                  -options.top_db));
    }
    const bool in_place = s().coin();
    const auto in_decibels = s().ask<gpu_ref<T>>(
        elementwise, power_to_decibel<T>{.input = power,
                                         .reference = largest,
                                         .options = options,
                                         .output = in_place ? power : gpu_ref<T>()});
    if (in_place) {
      EXPECT_EQ(in_decibels, power);
    }
    if (count > 1) {
      EXPECT_LE(relative_error(s().get(in_decibels), decibels), 10 * bound);
    }
  }
  const auto negative =
      s().ask<gpu_ref<T>>(elementwise, maximum<T>{.input = s().put(std::vector<T>{-3, -1, -2})});
  EXPECT_EQ(s().get(negative), std::vector<T>{-1});
  auto with_nan = s().numbers<T>(3'001);
  with_nan[s().number<std::size_t>(0, 3'000)] = std::numeric_limits<T>::quiet_NaN();
  const auto nan = s().ask<gpu_ref<T>>(elementwise, maximum<T>{.input = s().put(with_nan)});
  EXPECT_TRUE(std::isnan(s().get(nan).front()));
}

TEST_P(operations, elementwise_f32) {
  check_elementwise<float>();
}
TEST_P(operations, elementwise_f64) {
  check_elementwise<double>();
}

INSTANTIATE_TEST_SUITE_P(devices, operations, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
