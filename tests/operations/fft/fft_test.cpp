// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/executing.hpp"
#include "tests/operations/fft/dft.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/relative_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/fft.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <vector>

namespace sluice::test {
namespace {

/// A batch of transforms. A distance of 0 stands for rows without gaps.
struct rows {
  std::int64_t length = 1;
  std::int64_t batch = 1;
  std::int64_t input_distance = 0;
  std::int64_t output_distance = 0;
};

enum kind { c2c_forward, c2c_inverse, r2c, c2r };

template <kind Kind, class Real>
using input_value = std::conditional_t<Kind == r2c, Real, std::complex<Real>>;
template <kind Kind, class Real>
using output_value = std::conditional_t<Kind == c2r, Real, std::complex<Real>>;

/// Bins [0, output_row) of one row, or those of them in `chosen`.
template <kind Kind, class Real>
std::vector<wide> reference_row(const dft_reference& dft, const input_value<Kind, Real>* row,
                                std::size_t n, const std::vector<std::size_t>& chosen) {
  std::vector<wide> bins;
  if constexpr (Kind == c2r) {
    const auto spectrum = hermitian(row, n);
    for (const std::size_t k : chosen) bins.push_back(dft.bin(spectrum.data(), k).real());
  } else {
    for (const std::size_t k : chosen) bins.push_back(dft.bin(row, k));
  }
  return bins;
}

std::size_t size(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

std::vector<std::size_t> all_of(std::size_t count) {
  std::vector<std::size_t> every(count);
  for (std::size_t i = 0; i < count; ++i) every[i] = i;
  return every;
}

class fft_operations : public executor_test {
 protected:
  /// The rows of `memory`, `row` elements each.
  template <class T>
  static tensor rows_of(const gpu_ref<T>& memory, std::int64_t batch, std::int64_t row,
                        std::int64_t distance) {
    return {memory.block(), memory.type(), {batch, row}, {distance, 1}};
  }
  template <kind Kind>
  tensor transform(const tensor& x, const tensor& y, std::int64_t length, double scale) {
    if constexpr (Kind == r2c) {
      return run(test_executor(), rfft{.x = x, .y = y, .scale = scale});
    } else if constexpr (Kind == c2r) {
      return run(test_executor(), irfft{.x = x, .y = y, .length = length, .scale = scale});
    } else {
      const auto direction = Kind == c2c_forward ? fft_direction::forward : fft_direction::inverse;
      return run(test_executor(), fft{.x = x, .y = y, .direction = direction, .scale = scale});
    }
  }

  /// Transforms random rows and compares the result with the definition. Where that would take too
  /// long, 8 bins of the first and the last row stand for all.
  template <kind Kind, class Real>
  void expect_right(rows d, double scale = 1) {
    const auto in_row = Kind == c2r ? d.length / 2 + 1 : d.length;
    const auto out_row = Kind == r2c ? d.length / 2 + 1 : d.length;
    if (d.input_distance == 0) d.input_distance = in_row;
    if (d.output_distance == 0) d.output_distance = out_row;
    SCOPED_TRACE(::testing::Message()
                 << "kind " << Kind << (sizeof(Real) == 4 ? " f32" : " f64") << " length "
                 << d.length << " batch " << d.batch << " distances " << d.input_distance << ' '
                 << d.output_distance);
    auto generator = make_generator();
    const auto in = random_values<input_value<Kind, Real>>(
        generator, size((d.batch - 1) * d.input_distance + in_row));
    const auto extent = size((d.batch - 1) * d.output_distance + out_row);
    const output_value<Kind, Real> mark(12345);
    const std::vector<output_value<Kind, Real>> before(extent + 3, mark);
    const auto input = upload(runtime(), stream(), in);
    const auto output = upload(runtime(), stream(), before);
    (void)transform<Kind>(rows_of(input, d.batch, in_row, d.input_distance),
                          rows_of(output, d.batch, out_row, d.output_distance), d.length, scale);
    const auto out = download(output, stream());
    EXPECT_EQ(download(input, stream()), in) << "the input has been overwritten";

    const auto n = size(d.length);
    const dft_reference& dft = reference_for(n, Kind == c2c_forward || Kind == r2c ? -1 : 1);
    std::vector<std::size_t> chosen = all_of(size(out_row));
    std::vector<std::size_t> some = all_of(size(d.batch));
    if (d.length * out_row * d.batch > 4'000'000) {
      std::shuffle(chosen.begin(), chosen.end(), generator);
      chosen.resize(std::min<std::size_t>(chosen.size(), 8));
      some = {0, size(d.batch) - 1};
    }
    std::vector<wide> computed;
    std::vector<wide> reference;
    for (const std::size_t b : some) {
      const auto bins =
          reference_row<Kind, Real>(dft, in.data() + b * size(d.input_distance), n, chosen);
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        const std::complex<Real> value = out[b * size(d.output_distance) + chosen[i]];
        computed.emplace_back(value.real(), value.imag());
        reference.push_back(bins[i] * static_cast<long double>(scale));
      }
    }
    EXPECT_LE(relative_error(computed, reference), error_bound<Real>());

    // The elements between and behind the rows stay as they are.
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (i >= extent || i % size(d.output_distance) >= size(out_row)) {
        ASSERT_EQ(out[i], mark) << i;
      }
    }
  }

  template <class Real>
  void expect_all_kinds_right(const rows& description, double scale = 1) {
    expect_right<c2c_forward, Real>(description, scale);
    expect_right<c2c_inverse, Real>(description, scale);
    expect_right<r2c, Real>(description, scale);
    expect_right<c2r, Real>(description, scale);
  }

  /// Made again only when the length or the sign changes: for a large length it takes long.
  const dft_reference& reference_for(std::size_t length, int sign) {
    auto& reference = references_[sign < 0 ? 0 : 1];
    if (!reference || reference->length() != length) {
      reference = std::make_unique<dft_reference>(length, sign);
    }
    return *reference;
  }

 private:
  std::unique_ptr<dft_reference> references_[2];
};

TEST_P(fft_operations, every_small_length) {
  for (std::int64_t n = 1; n <= 64; ++n) {
    expect_all_kinds_right<float>({.length = n, .batch = 1 + n % 3});
    expect_all_kinds_right<double>({.length = n, .batch = 1 + n % 3});
  }
}

TEST_P(fft_operations, products_of_small_primes_and_powers_of_two) {
  for (const std::int64_t n : {81, 105, 128, 210, 225, 343, 360, 441, 512, 1000}) {
    expect_all_kinds_right<float>({.length = n, .batch = 3});
    expect_all_kinds_right<double>({.length = n, .batch = 3});
  }
}

TEST_P(fft_operations, primes_and_their_multiples) {
  for (const std::int64_t n : {67, 89, 97, 101, 103, 194, 202, 211, 303, 509, 1009}) {
    expect_all_kinds_right<float>({.length = n, .batch = 2});
    expect_all_kinds_right<double>({.length = n, .batch = 2});
  }
}

TEST_P(fft_operations, large_lengths) {
  // A power of three, twice a prime, a Fermat prime, a power of two.
  for (const std::int64_t n : {59'049, 200'006}) expect_all_kinds_right<float>({.length = n});
  for (const std::int64_t n : {65'537, 131'072}) expect_all_kinds_right<double>({.length = n});
  expect_right<c2r, float>({.length = 1 << 20});
  expect_right<r2c, double>({.length = 1 << 20});
}

TEST_P(fft_operations, large_batches) {
  expect_all_kinds_right<float>({.length = 3, .batch = 70'001});
  expect_all_kinds_right<double>({.length = 16, .batch = 70'001});
  expect_right<r2c, float>({.length = 2048, .batch = 300});
}

TEST_P(fft_operations, overlapping_rows_are_frames_of_a_signal) {
  // A hop also odd, where a frame begins between two aligned pairs.
  for (const std::int64_t hop : {1, 15, 16, 31, 63}) {
    expect_right<r2c, float>({.length = 64, .batch = 20, .input_distance = hop});
    expect_right<r2c, double>({.length = 64, .batch = 20, .input_distance = hop});
    expect_right<r2c, float>({.length = 63, .batch = 20, .input_distance = hop});
    expect_right<c2c_forward, float>({.length = 64, .batch = 20, .input_distance = hop});
  }
  expect_right<r2c, float>({.length = 2048, .batch = 100, .input_distance = 441});
}

TEST_P(fft_operations, rows_may_stand_apart) {
  for (const std::int64_t n : {7, 8, 101}) {
    expect_all_kinds_right<float>(
        {.length = n, .batch = 5, .input_distance = n + 3, .output_distance = n + 1}, 0.5);
    expect_all_kinds_right<double>(
        {.length = n, .batch = 5, .input_distance = n + 2, .output_distance = n + 5}, 0.5);
  }
}

TEST_P(fft_operations, the_result_is_scaled) {
  for (const double scale : {1.0 / 360, -2.5, 0.0, 1e-3}) {
    expect_all_kinds_right<float>({.length = 360, .batch = 2}, scale);
    expect_all_kinds_right<double>({.length = 361, .batch = 2}, scale);
  }
}

// Libraries scale the result, so a scale does not keep the sums in range.
TEST_P(fft_operations, overflow_if_the_sums_do) {
  constexpr std::int64_t n = 8;
  const std::vector<std::complex<float>> ones(n, 1e38F);
  const tensor x = upload(runtime(), stream(), ones);
  constexpr double scale = 1.0 / n;
  const auto inverse = fft_direction::inverse;
  const auto of_bins = [&](const tensor& bins, double factor) {
    return download(
        run(test_executor(), irfft{.x = bins, .length = n, .scale = factor}).as<float>(), stream());
  };
  const auto first = [&](const tensor& y) {
    return download(y.as<std::complex<float>>(), stream()).front().real();
  };
  const auto is_finite = [](float value) {
    return std::isfinite(value);
  };
  const auto bins = x.slice(0, 0, n / 2 + 1);
  EXPECT_FALSE(
      is_finite(first(run(test_executor(), fft{.x = x, .direction = inverse, .scale = scale}))));
  EXPECT_FALSE(is_finite(of_bins(bins, scale).front()));
  // Scaled before, it is in range.
  const std::vector<std::complex<float>> scaled_ones(n, 1e38F / n);
  const tensor scaled = upload(runtime(), stream(), scaled_ones);
  EXPECT_FLOAT_EQ(first(run(test_executor(), fft{.x = scaled, .direction = inverse})), 1e38F);
  EXPECT_FLOAT_EQ(of_bins(scaled.slice(0, 0, n / 2 + 1), 1).front(), 1e38F);
}

TEST_P(fft_operations, do_not_overflow_below_the_documented_bound) {
  auto generator = make_generator();
  const auto bound = 0.999F * std::numeric_limits<float>::max() / 1000;
  const auto all_finite = [](const auto& values) {
    return std::all_of(values.begin(), values.end(),
                       [](const auto& z) { return std::isfinite(std::abs(z)); });
  };
  for (const std::int64_t n : {1, 2, 3, 7, 8, 64, 97, 101, 127, 131, 360, 1009, 1024, 2018, 4099}) {
    for (int kind = 0; kind < 4; ++kind) {
      SCOPED_TRACE(::testing::Message() << "length " << n << " input " << kind);
      const auto each = bound / static_cast<float>(n);
      std::vector<std::complex<float>> values(size(n), each);
      if (kind == 1) {
        std::fill(values.begin(), values.end(), 0);
        values[size(n / 2)] = bound;
      } else if (kind == 2) {
        for (auto& value : values) value = generator() % 2 == 0 ? each : -each;
      } else if (kind == 3) {  // what Bluestein's algorithm multiplies with its conjugate
        for (std::size_t j = 0; j < values.size(); ++j) {
          const auto square = static_cast<std::int64_t>(j * j) % (2 * n);
          const auto angle = 3.14159265358979 * static_cast<double>(square);
          values[j] = std::polar(each, static_cast<float>(angle / static_cast<double>(n)));
        }
      }
      const tensor x = upload(runtime(), stream(), values);
      for (const auto direction : {fft_direction::forward, fft_direction::inverse}) {
        const auto y = run(test_executor(), fft{.x = x, .direction = direction, .scale = 0.5});
        EXPECT_TRUE(all_finite(download(y.as<std::complex<float>>(), stream())));
      }
      // Most bins count twice.
      for (auto& value : values) value *= 0.5F;
      const tensor bins = upload(runtime(), stream(), values);
      const auto y =
          run(test_executor(), irfft{.x = bins.slice(0, 0, n / 2 + 1), .length = n, .scale = 0.5});
      EXPECT_TRUE(all_finite(download(y.as<float>(), stream())));
    }
  }
}

TEST_P(fft_operations, there_and_back_is_the_identity_times_the_length) {
  auto generator = make_generator();
  for (const std::int64_t n : {1, 2, 90, 127, 1024}) {
    const auto values = random_values<double>(generator, size(2 * n));
    const tensor signal = upload(runtime(), stream(), values);
    const auto spectrum = run(test_executor(), rfft{.x = signal.reshape({2, n})});
    EXPECT_EQ(spectrum.shape(), (extents{2, n / 2 + 1}));
    const auto back = run(test_executor(),
                          irfft{.x = spectrum, .length = n, .scale = 1 / static_cast<double>(n)});
    EXPECT_EQ(back.shape(), (extents{2, n}));
    EXPECT_LE(relative_error(download(back.reshape({-1}).as<double>(), stream()), values),
              error_bound<double>());
  }
}

TEST_P(fft_operations, complex_transforms_work_in_place) {
  auto generator = make_generator();
  for (const std::int64_t n : {1, 6, 97, 128, 202}) {
    for (const auto direction : {fft_direction::forward, fft_direction::inverse}) {
      const auto memory =
          upload(runtime(), stream(), random_values<std::complex<float>>(generator, size(3 * n)));
      const auto x = tensor(memory).reshape({3, n});
      const auto apart = run(test_executor(), fft{.x = x, .direction = direction});
      (void)run(test_executor(), fft{.x = x, .y = x, .direction = direction});
      EXPECT_LE(relative_error(download(memory, stream()),
                               download(apart.reshape({-1}).as<std::complex<float>>(), stream())),
                error_bound<float>());
    }
  }
}

TEST_P(fft_operations, inverse_real_transforms_ignore_what_a_real_signal_has_no_place_for) {
  auto generator = make_generator();
  for (const std::int64_t n : {1, 2, 9, 64, 202}) {
    auto bins = random_values<std::complex<double>>(generator, size(n / 2 + 1));
    const auto result = [&] {
      const tensor x = upload(runtime(), stream(), bins);
      return download(run(test_executor(), irfft{.x = x, .length = n}).as<double>(), stream());
    };
    const auto first = result();
    bins[0].imag(1000);
    if (n % 2 == 0) bins[size(n / 2)].imag(-1000);
    EXPECT_LE(relative_error(result(), first), error_bound<double>()) << n;
  }
}

// The plans of a lane share its workspace, which is replaced while launches that use the old one
// are queued.
TEST_P(fft_operations, a_larger_plan_does_not_disturb_what_is_queued) {
  auto generator = make_generator();
  std::vector<std::vector<std::complex<float>>> in;
  std::vector<tensor> out;
  for (const std::size_t n : {1009U, 4099U, 1009U, 32771U, 65537U}) {
    in.push_back(random_values<std::complex<float>>(generator, n));
    const auto x = upload(runtime(), stream(), in.back());
    out.push_back(run(test_executor(), fft{.x = x}, {.reply = reply_on::enqueued}));
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto bins = download(out[i].as<std::complex<float>>(), stream());
    const dft_reference dft(in[i].size(), -1);
    std::vector<std::complex<float>> computed;
    std::vector<wide> reference;
    for (std::size_t k = 0; k < in[i].size(); k += 1 + in[i].size() / 16) {
      computed.push_back(bins[k]);
      reference.push_back(dft.bin(in[i].data(), k));
    }
    EXPECT_LE(relative_error(computed, reference), error_bound<float>());
  }
}

TEST_P(fft_operations, no_rows_are_no_work) {
  const auto memory = runtime().allocate<float>(8, stream(), "test");
  const auto nothing = tensor(memory).reshape({1, 8}).slice(0, 0, 0);
  EXPECT_EQ(run(test_executor(), rfft{.x = nothing}).shape(), (extents{0, 5}));
}

TEST_P(fft_operations, plan_nothing_for_no_rows) {
  const tensor memory = runtime().allocate<float>(64, stream(), "test");
  const auto none = [&](element_type type, std::int64_t length) {
    return tensor(memory.block(), type, {0, length});
  };
  // A prime length, whose factors would be looked for in minutes, and one that is too large to
  // plan.
  for (const auto length : {(std::int64_t{1} << 58) - 27, std::int64_t{1} << 58}) {
    EXPECT_EQ(run(test_executor(), fft{.x = none(element_type::c64, length)}).shape(),
              (extents{0, length}));
    EXPECT_EQ(run(test_executor(), rfft{.x = none(element_type::f32, length)}).shape(),
              (extents{0, length / 2 + 1}));
    EXPECT_EQ(
        run(test_executor(), irfft{.x = none(element_type::c64, length / 2 + 1), .length = length})
            .shape(),
        (extents{0, length}));
  }
}

TEST_P(fft_operations, refuse_operands_by_name) {
  const tensor real = runtime().allocate<float>(64, stream(), "test");
  const tensor complex = runtime().allocate<std::complex<float>>(64, stream(), "test");
  constexpr auto bad = errc::invalid_argument;
  const auto expect_refused = [&](errc code, const std::string& text, auto operation) {
    SCOPED_TRACE(text);
    const auto before = runtime().statistics();
    EXPECT_TRUE(throws(code, text, [&] { (void)run(test_executor(), std::move(operation)); }));
    EXPECT_EQ(runtime().statistics().launches, before.launches);
    EXPECT_EQ(runtime().statistics().peak_bytes, before.peak_bytes);
  };
  expect_refused(bad, "x: is not given", fft{});
  expect_refused(bad, "x: is of type f32", fft{.x = real});
  expect_refused(bad, "x: is of type c64", rfft{.x = complex});
  expect_refused(bad, "x: has the shape [0]", fft{.x = complex.slice(0, 0, 0)});
  expect_refused(bad, "y: has the shape [63]", fft{.x = complex, .y = complex.slice(0, 0, 63)});
  expect_refused(bad, "y: is of type", rfft{.x = real, .y = real});
  expect_refused(bad, "y: shares memory with x",
                 fft{.x = complex.slice(0, 0, 32), .y = complex.slice(0, 16, 48)});
  expect_refused(bad, "length: -1", irfft{.x = complex, .length = -1});
  expect_refused(bad, "length: 64 needs 33 bins", irfft{.x = complex, .length = 64});
  expect_refused(bad, "length: is not given", irfft{.x = complex.slice(0, 0, 1)});
  expect_refused(bad, "scale: inf",
                 rfft{.x = real, .scale = std::numeric_limits<double>::infinity()});
  expect_refused(bad, "scale: 1e+300", rfft{.x = real, .scale = 1e300});
  const tensor twice = complex.slice(0, 0, 1).broadcast_to({2, 4});
  expect_refused(bad, "y: has the shape",
                 fft{.x = complex.slice(0, 8, 16).reshape({2, 4}), .y = twice});
  EXPECT_EQ(test_executor().waiting(), 0U);
}

TEST_P(fft_operations, make_a_plan_once) {
  const tensor real = upload(runtime(), stream(), std::vector<float>(128, 1.0F));
  (void)run(test_executor(), rfft{.x = real});
  const auto before = runtime().statistics().launches;
  (void)run(test_executor(), rfft{.x = real});
  EXPECT_EQ(runtime().statistics().launches, before + 1);
}

INSTANTIATE_TEST_SUITE_P(devices, fft_operations, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
