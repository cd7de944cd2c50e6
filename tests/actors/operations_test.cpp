// SPDX-License-Identifier: Apache-2.0
// Every operation of the library actors through messages, on odd shapes and in every type, against
// double-precision references.
#include "tests/actors/gemm_request.hpp"
#include "tests/actors/session_test.hpp"
#include "tests/operations/blas_reference.hpp"
#include "tests/operations/dnn/conv2d_reference.hpp"
#include "tests/operations/fft/dft.hpp"
#include "tests/support/relative_error.hpp"

#include <sluice/actors/spawn_operations.hpp>
#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

namespace sluice::test {

/// A named service around a program.
struct square {
  tensor x{};
};
inline run to_operation(const square& request) {
  static const program program = [] {
    program_builder p;
    const auto x = p.input("x");
    const auto y = p.add("square", multiply(x, x));
    return std::move(p).build({y});
  }();
  return {program, {request.x}};
}

}  // namespace sluice::test

namespace sluice {
template <>
struct request_reply<test::square> {
  using type = tensor;
  explicit request_reply(test::square&) noexcept {}
  [[nodiscard]] tensor operator()(const tensors& results) const noexcept { return results[0]; }
};
}  // namespace sluice

SLUICE_MESSAGES(square_service, 2000, sluice::test::square)

namespace sluice::test {
namespace {

class operations : public session_test {
 protected:
  /// The values in device memory of which they are only a part, when `view` says so.
  template <class T>
  gpu_ref<T> put(const std::vector<T>& values, bool view) {
    if (!view) return s().put(values);
    const auto before = s().number<std::size_t>(1, 9);
    auto elements = s().numbers<T>(values.size() + before + 3);
    std::copy(values.begin(), values.end(), elements.begin() + static_cast<std::ptrdiff_t>(before));
    return s().put(elements).subspan(before, values.size());
  }

  template <class T>
  void check_gemm();
  template <class Real>
  void check_fft();
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
    const bool has_output = s().coin();
    const T alpha = round % 5 == 0 ? T{0} : static_cast<T>(0.75);
    const T beta = has_output && s().coin() ? static_cast<T>(-1.25) : T{0};
    shape = with_gaps(shape, s().generator());
    if (!has_output) shape.ldc = without_gaps(shape).ldc;
    const auto p = random_gemm<T>(shape, alpha, beta, s().generator());
    const auto a = put(p.a, s().coin());
    const auto b = put(p.b, s().coin());
    const auto c = has_output ? put(p.c, s().coin()) : gpu_ref<T>();
    const auto result = s().ask<gpu_ref<T>>(blas, gemm_request(p, a, b, c));
    if (has_output) {
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
  const auto ask = [&](const sgemm& r) {
    return s().get(s().ask<gpu_ref<float>>(blas, r));
  };
  const auto a = s().put(std::vector<float>(9, nan));
  // alpha 0: A and B are not read.
  EXPECT_EQ(
      ask({.m = 3, .n = 4, .k = 3, .alpha = 0, .a = a, .b = no_numbers, .beta = 0.5F, .c = c}),
      std::vector<float>(12, 1.0F));
  // k 0: the same.
  EXPECT_EQ(ask({.m = 3, .n = 4, .k = 0, .a = a, .b = a, .beta = 3, .c = c}),
            std::vector<float>(12, 3.0F));
  EXPECT_EQ(ask({.m = 3, .n = 4, .k = 0, .a = a, .b = a}), std::vector<float>(12, 0.0F));
  // beta 0: C is not read.
  EXPECT_EQ(ask({.m = 3, .n = 4, .k = 0, .a = a, .b = a, .c = no_numbers}),
            std::vector<float>(12, 0.0F));
  // Nothing to write.
  EXPECT_EQ(ask({.m = 0, .n = 4, .k = 3, .a = a, .b = no_numbers, .c = c}),
            std::vector<float>(12, 3.0F));
  EXPECT_TRUE(ask({.m = 3, .n = 0, .k = 3, .a = a, .b = a}).empty());
}

TEST_P(operations, gemm_with_a_bias_and_a_function) {
  const auto matrix = [&](const std::vector<float>& values, const extents& shape) {
    return tensor(s().put(values)).reshape(shape);
  };
  const auto y = s().ask<tensor>(device().blas(), gemm{.a = matrix({1, 2, 3, -4}, {2, 2}),
                                                       .b = matrix({0, 1, 1, 0}, {2, 2}),
                                                       .bias = matrix({-1, 2}, {2}),
                                                       .activation = activation::relu,
                                                       .residual = matrix({1, 2, 3, 4}, {2, 2})});
  EXPECT_EQ(s().get(y.reshape({-1}).as<float>()), (std::vector<float>{2, 5, 3, 9}));
}

TEST_P(operations, conv2d_with_and_without_bias_relu_and_groups) {
  if (!has_convolutions(device().service().runtime().device().id().kind)) {
    GTEST_SKIP() << "this build has no dnn library for the device";
  }
  const auto dnn = device().dnn();
  for (int round = 0; round < 24; ++round) {
    SCOPED_TRACE(round);
    auto d = random_conv2d_description(s().generator());
    if (round % 6 == 0) {
      // Depthwise.
      d.geometry.groups = 5;
      d.x[1] = 5;
      d.w[0] = 5 * s().number<std::int64_t>(1, 5);
      d.w[1] = 1;
    }
    d.has_bias = round % 4 < 2;
    d.activation = round % 2 == 0 ? activation::relu : activation::none;
    d.math = round % 5 == 4 ? math_mode::tf32 : math_mode::f32;
    const auto p = random_conv2d(d, s().generator());
    const auto expected = conv2d_reference(p);
    const auto x = put(p.x, s().coin());
    const auto w = put(p.w, s().coin());
    conv2d r{.x = tensor(x).reshape(d.x),
             .w = tensor(w).reshape(d.w),
             .bias = d.has_bias ? put(p.bias, s().coin()) : gpu_ref<float>(),
             .geometry = d.geometry,
             .activation = d.activation,
             .math = d.math};
    if (d.has_residual) r.residual = tensor(s().put(p.residual)).reshape(output_shape(d));
    if (s().coin()) {
      r.y = tensor(put(s().numbers<float>(expected.size()), s().coin())).reshape(output_shape(d));
    }
    const auto y = s().ask<tensor>(dnn, r);
    if (r.y) {
      EXPECT_EQ(y, r.y.value());
    }
    EXPECT_EQ(y.shape(), output_shape(d));
    EXPECT_LE(relative_error(s().get(y.reshape({-1}).as<float>()), expected),
              r.math == math_mode::tf32 ? 1e-3 : error_bound<float>());
    EXPECT_EQ(s().get(x), p.x);
    EXPECT_EQ(s().get(w), p.w);
  }
  const auto image = tensor(s().put(s().numbers<float>(50))).reshape({1, 2, 5, 5});
  const auto empty = s().ask<tensor>(
      dnn, conv2d{.x = image.slice(0, 0, 0),
                  .w = tensor(s().put(s().numbers<float>(24))).reshape({3, 2, 2, 2})});
  EXPECT_EQ(empty.shape(), (extents{0, 3, 4, 4}));
}

template <class Real>
void operations::check_fft() {
  using complex = std::complex<Real>;
  const auto actor = device().fft();
  for (const std::size_t n : {1U, 2U, 3U, 7U, 16U, 37U, 100U, 121U, 128U, 263U}) {
    SCOPED_TRACE(n);
    const auto batch = s().number<std::size_t>(1, 4);
    const auto rows = [&](const auto& values) {
      return tensor(s().put(values)).reshape({static_cast<std::int64_t>(batch), -1});
    };
    const auto expected_rows = [&](const auto& row_of) {
      std::vector<std::complex<double>> elements;
      for (std::size_t b = 0; b < batch; ++b) {
        for (const auto& value : row_of(b)) elements.emplace_back(value);
      }
      return elements;
    };
    const auto expect = [&](const tensor& result, const auto& values, const auto& expected) {
      EXPECT_LE(
          relative_error(
              s().get(result.reshape({-1})
                          .template as<typename std::decay_t<decltype(values)>::value_type>()),
              expected),
          error_bound<Real>());
    };
    const auto signal = s().numbers<complex>(batch * n);
    for (const auto direction : {fft_direction::forward, fft_direction::inverse}) {
      const int sign = direction == fft_direction::forward ? -1 : 1;
      expect(s().ask<tensor>(actor, fft{.x = rows(signal), .direction = direction}), signal,
             expected_rows([&](std::size_t b) { return dft(signal.data() + b * n, n, sign); }));
    }
    const auto real = s().numbers<Real>(batch * n);
    expect(s().ask<tensor>(actor, rfft{.x = rows(real)}), signal, expected_rows([&](std::size_t b) {
             auto transform = dft(real.data() + b * n, n, -1);
             transform.resize(n / 2 + 1);
             return transform;
           }));
    const auto bins = s().numbers<complex>(batch * (n / 2 + 1));
    expect(s().ask<tensor>(actor, irfft{.x = rows(bins), .length = static_cast<std::int64_t>(n)}),
           real, expected_rows([&](std::size_t b) {
             return inverse_real_dft(bins.data() + b * (n / 2 + 1), n);
           }));
  }
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
  std::vector<caf::message> messages;
  for (std::size_t n = 1; n <= lengths; ++n) {
    messages.push_back(caf::make_message(sluice::fft{.x = input.subspan(0, n)},
                                         request_options{.bits = result_bits::as_if_alone}));
  }
  const auto replies = s().send<gpu_ref<std::complex<double>>>(untyped(fft), std::move(messages));
  if (s().on_host()) {
    await([&] { return s().service()->engine().pending() >= max_in_flight; });
  }
  g.open();
  const auto got = replies->wait();
  for (std::size_t n = 1; n <= lengths; ++n) {
    ASSERT_TRUE(succeeded(got[n - 1]));
    ASSERT_LE(relative_error(s().get(*got[n - 1].value), dft(in.data(), n, -1)), 1e-12);
  }
}

TEST_P(operations, random_numbers_of_parts_are_those_of_the_whole) {
  const auto rng = device().rng();
  const auto seed = s().generator()();
  const auto draw = [&](std::int64_t first, std::int64_t count) {
    const random_uniform request{.shape = extents{count}, .seed = seed, .offset = first};
    return s().get(s().ask<tensor>(rng, request).as<float>());
  };
  // Across a place where cuRAND's order takes a step.
  constexpr std::int64_t start = 262'144 - 500;
  const auto whole = draw(start, 1000);
  auto parts = draw(start, 333);
  for (const float x : draw(start + 333, 667)) parts.push_back(x);
  EXPECT_EQ(parts, whole);
  const auto bits = s().get(
      s().ask<tensor>(rng, random_bits{.shape = extents{1000}, .seed = seed, .offset = start})
          .as<std::uint32_t>());
  for (std::size_t i = 0; i < whole.size(); ++i)
    ASSERT_EQ(whole[i], static_cast<float>(bits[i]) * 0x1p-32F + 0x1p-33F);
}

template <class T>
void operations::check_elementwise() {
  using complex = std::complex<T>;
  const auto elementwise = device().elementwise();
  const auto bound = error_bound<T>();
  const auto largest_of = [&](const gpu_ref<T>& values) {
    return s()
        .ask<tensor>(elementwise, reduce{.x = values, .kind = reduction::max})
        .template as<T>();
  };
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    // Frames.
    const frame_layout layout{s().number<std::size_t>(64, 999), 2 * s().number<std::size_t>(1, 32),
                              s().number<std::size_t>(1, 50)};
    const auto signal = s().numbers<T>(layout.samples);
    const auto window = round % 2 == 0 ? s().numbers<T>(layout.n_fft) : std::vector<T>();
    const auto frames =
        s().ask<tensor>(
               elementwise,
               frame_signal{.signal = put(signal, s().coin()),
                            .window = window.empty() ? gpu_ref<T>() : put(window, s().coin()),
                            .n_fft = static_cast<std::int64_t>(layout.n_fft),
                            .hop = static_cast<std::int64_t>(layout.hop)})
            .template as<T>();
    std::vector<double> expected;
    for (std::size_t f = 0; f < 1 + layout.samples / layout.hop; ++f) {
      for (std::size_t j = 0; j < layout.n_fft; ++j) {
        const auto index = static_cast<std::ptrdiff_t>(f * layout.hop + j) -
                           static_cast<std::ptrdiff_t>(layout.n_fft / 2);
        const bool inside = index >= 0 && index < static_cast<std::ptrdiff_t>(layout.samples);
        const double value =
            inside ? static_cast<double>(signal[static_cast<std::size_t>(index)]) : 0;
        expected.push_back(window.empty() ? value : value * static_cast<double>(window[j]));
      }
    }
    EXPECT_LE(relative_error(s().get(frames), expected), bound);

    // Power, its maximum, decibels.
    const auto count = s().number<std::size_t>(1, 7'000);
    auto spectrum = s().numbers<complex>(count);
    spectrum[count / 2] = 0;  // falls below amin
    const auto power = s().ask<tensor>(elementwise, power_spectrum{.x = put(spectrum, s().coin())})
                           .template as<T>();
    std::vector<double> powers;
    for (const auto& z : spectrum) powers.push_back(std::norm(std::complex<double>(z)));
    EXPECT_LE(relative_error(s().get(power), powers), bound);

    const auto largest = largest_of(power);
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
    const auto in_decibels =
        s().ask<tensor>(elementwise, power_to_decibel{.x = power,
                                                      .reference = largest,
                                                      .options = options,
                                                      .y = in_place ? power : gpu_ref<T>()})
            .template as<T>();
    if (in_place) {
      EXPECT_EQ(in_decibels, power);
    }
    if (count > 1) {
      EXPECT_LE(relative_error(s().get(in_decibels), decibels), 10 * bound);
    }
  }
  const auto negative = largest_of(s().put(std::vector<T>{-3, -1, -2}));
  EXPECT_EQ(s().get(negative), std::vector<T>{-1});
  auto with_nan = s().numbers<T>(3'001);
  with_nan[s().number<std::size_t>(0, 3'000)] = std::numeric_limits<T>::quiet_NaN();
  const auto nan = largest_of(s().put(with_nan));
  EXPECT_TRUE(std::isnan(s().get(nan).front()));
}

TEST_P(operations, elementwise_f32) {
  check_elementwise<float>();
}
TEST_P(operations, elementwise_f64) {
  check_elementwise<double>();
}

TEST_P(operations, a_download_leaves_the_given_tensor_to_the_client) {
  const auto values = s().numbers<float>(12);
  const auto x = s().put(values);
  for (const auto& target : {std::make_shared<host_tensor>(element_type::f32, extents{12}),
                             std::make_shared<host_tensor>()}) {
    const auto answer =
        s().ask<host_tensor>(device().actor(), sluice::download{.x = x, .target = target});
    EXPECT_EQ(target->to_vector<float>(), values);
    EXPECT_EQ(answer.data(), target->data());
  }
}

TEST_P(operations, a_program_equals_its_steps) {
  const auto x = tensor(s().put(s().numbers<float>(24))).reshape({4, 6});
  program_builder p;
  const auto input = p.input("x");
  const auto product = p.add("product", gemm{.a = input, .b = input.transposed()});
  const auto largest = p.add("largest", reduce{.x = product, .kind = reduction::max});
  const program program = std::move(p).build({product, largest});
  const auto results = s().ask<tensors>(device().programs(), run{program, {x}});
  ASSERT_EQ(results.size(), 2U);
  const auto c = s().ask<tensor>(device().blas(), gemm{.a = x, .b = x.transposed()});
  EXPECT_EQ(s().get(results[0].as<float>()), s().get(c.as<float>()));
  const auto m = s().ask<tensor>(device().elementwise(), reduce{.x = c, .kind = reduction::max});
  EXPECT_EQ(s().get(results[1].as<float>()), s().get(m.as<float>()));
}

TEST_P(operations, a_request_may_turn_into_a_program) {
  const auto x = s().put(std::vector<float>{1, -2, 3});
  auto squares = spawn_operations<square>(s().system(), "test.square", device().shared_service());
  EXPECT_EQ(s().get(s().ask<tensor>(squares, square{x}).as<float>()),
            (std::vector<float>{1, 4, 9}));
  squares = decltype(squares){};
}

INSTANTIATE_TEST_SUITE_P(devices, operations, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
