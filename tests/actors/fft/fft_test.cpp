// SPDX-License-Identifier: Apache-2.0
#include "actors/fft/fft_library.hpp"
#include "tests/actors/library_test.hpp"
#include "tests/actors/references/dft.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/relative_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <vector>

namespace sluice::test {
namespace {

using enum fft_kind;

template <fft_kind Kind, class Real>
using input_value = std::conditional_t<Kind == r2c, Real, std::complex<Real>>;
template <fft_kind Kind, class Real>
using output_value = std::conditional_t<Kind == c2r, Real, std::complex<Real>>;

/// Bins [0, output_row) of one row, or those of them in `chosen`.
template <fft_kind Kind, class Real>
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

std::vector<std::size_t> all_of(std::size_t count) {
  std::vector<std::size_t> every(count);
  for (std::size_t i = 0; i < count; ++i) every[i] = i;
  return every;
}

class fft : public library_test<actors::make_fft_library> {
 protected:
  /// Queues the transform with its uses recorded.
  template <element In, element Out>
  void transform(const actors::fft_plan& plan, const gpu_ref<In>& in, const gpu_ref<Out>& out,
                 double scale = 1) {
    launch_recorder recorder = launch_recorder::strict(stream());
    recorder.read(in).read_write(out);
    recorder.preflight();
    library_->execute(plan, in.data(), out.data(), scale);
    recorder.commit();
  }

  /// Transforms random rows and holds the result against the definition. Where that would take too
  /// long, 8 bins of the first and the last row stand for all.
  template <fft_kind Kind, class Real>
  void expect_right(fft_description description, double scale = 1) {
    SCOPED_TRACE(::testing::Message()
                 << to_string(Kind) << (sizeof(Real) == 4 ? " f32" : " f64") << " length "
                 << description.length << " batch " << description.batch << " distances "
                 << description.input_distance << ' ' << description.output_distance);
    auto generator = make_generator();
    description.kind = Kind;
    description.precision = element_type_v<Real>;
    const fft_description d = completed(description);
    const auto in = random_values<input_value<Kind, Real>>(generator, input_extent(d));
    const output_value<Kind, Real> mark(12345);
    std::vector<output_value<Kind, Real>> expected_gaps(output_extent(d) + 3, mark);

    const auto input = upload(runtime(), stream(), in);
    const auto output = upload(runtime(), stream(), expected_gaps);
    const auto plan = library_->prepare(description);
    ASSERT_EQ(plan->description(), d);
    transform(*plan, input, output, scale);
    const auto out = download(output, stream());
    EXPECT_EQ(download(input, stream()), in) << "the input has been overwritten";

    const std::size_t row = output_row(Kind, d.length);
    const dft_reference& dft = reference_for(d.length, Kind == c2c_forward || Kind == r2c ? -1 : 1);
    std::vector<std::size_t> chosen = all_of(row);
    std::vector<std::size_t> rows = all_of(d.batch);
    if (d.length * row * d.batch > 4'000'000) {
      std::shuffle(chosen.begin(), chosen.end(), generator);
      chosen.resize(std::min<std::size_t>(chosen.size(), 8));
      rows = {0, d.batch - 1};
    }
    std::vector<wide> computed;
    std::vector<wide> reference;
    for (const std::size_t b : rows) {
      const auto bins =
          reference_row<Kind, Real>(dft, in.data() + b * d.input_distance, d.length, chosen);
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        const std::complex<Real> value = out[b * d.output_distance + chosen[i]];
        computed.emplace_back(value.real(), value.imag());
        reference.push_back(bins[i] * static_cast<long double>(scale));
      }
    }
    EXPECT_LE(relative_error(computed, reference), error_bound<Real>());

    // What lies between and behind the rows is not theirs.
    for (std::size_t i = 0; i < out.size(); ++i) {
      const bool behind = i >= output_extent(d);
      if (behind || i % d.output_distance >= row) {
        ASSERT_EQ(out[i], mark) << i;
      }
    }
  }

  template <class Real>
  void expect_all_kinds_right(const fft_description& description, double scale = 1) {
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

  std::unique_ptr<dft_reference> references_[2];
};

TEST_P(fft, every_small_length) {
  for (std::size_t n = 1; n <= 64; ++n) {
    expect_all_kinds_right<float>({.length = n, .batch = 1 + n % 3});
    expect_all_kinds_right<double>({.length = n, .batch = 1 + n % 3});
  }
}

TEST_P(fft, products_of_small_primes_and_powers_of_two) {
  for (const std::size_t n : {81u, 105u, 128u, 210u, 225u, 343u, 360u, 441u, 512u, 1000u}) {
    expect_all_kinds_right<float>({.length = n, .batch = 3});
    expect_all_kinds_right<double>({.length = n, .batch = 3});
  }
}

TEST_P(fft, primes_and_their_multiples) {
  for (const std::size_t n : {67u, 89u, 97u, 101u, 103u, 194u, 202u, 211u, 303u, 509u, 1009u}) {
    expect_all_kinds_right<float>({.length = n, .batch = 2});
    expect_all_kinds_right<double>({.length = n, .batch = 2});
  }
}

TEST_P(fft, large_lengths) {
  // A power of three, twice a prime, a Fermat prime, a power of two.
  for (const std::size_t n : {59'049u, 200'006u}) expect_all_kinds_right<float>({.length = n});
  for (const std::size_t n : {65'537u, 131'072u}) expect_all_kinds_right<double>({.length = n});
  expect_right<c2r, float>({.length = 1u << 20});
  expect_right<r2c, double>({.length = 1u << 20});
}

TEST_P(fft, large_batches) {
  expect_all_kinds_right<float>({.length = 3, .batch = 70'001});
  expect_all_kinds_right<double>({.length = 16, .batch = 70'001});
  expect_right<r2c, float>({.length = 2048, .batch = 300});
}

TEST_P(fft, overlapping_rows_are_frames_of_a_signal) {
  // A hop also odd, where a frame begins between two aligned pairs.
  for (const std::size_t hop : {1u, 15u, 16u, 31u, 63u}) {
    expect_right<r2c, float>({.length = 64, .batch = 20, .input_distance = hop});
    expect_right<r2c, double>({.length = 64, .batch = 20, .input_distance = hop});
    expect_right<r2c, float>({.length = 63, .batch = 20, .input_distance = hop});
    expect_right<c2c_forward, float>({.length = 64, .batch = 20, .input_distance = hop});
  }
  expect_right<r2c, float>({.length = 2048, .batch = 100, .input_distance = 441});
}

TEST_P(fft, rows_may_stand_apart) {
  for (const std::size_t n : {7u, 8u, 101u}) {
    expect_all_kinds_right<float>(
        {.length = n, .batch = 5, .input_distance = n + 3, .output_distance = n + 1}, 0.5);
    expect_all_kinds_right<double>(
        {.length = n, .batch = 5, .input_distance = n + 2, .output_distance = n + 5}, 0.5);
  }
}

TEST_P(fft, the_result_is_scaled) {
  for (const double scale : {1.0 / 360, -2.5, 0.0, 1e-3}) {
    expect_all_kinds_right<float>({.length = 360, .batch = 2}, scale);
    expect_all_kinds_right<double>({.length = 361, .batch = 2}, scale);
  }
}

TEST_P(fft, there_and_back_is_the_identity_times_the_length) {
  auto generator = make_generator();
  for (const std::size_t n : {1u, 2u, 90u, 127u, 1024u}) {
    const auto values = random_values<double>(generator, 2 * n);
    const auto signal = upload(runtime(), stream(), values);
    const auto spectrum =
        runtime().allocate<std::complex<double>>(2 * (n / 2 + 1), stream(), "test");
    const auto back = runtime().allocate<double>(2 * n, stream(), "test");
    const auto there =
        library_->prepare({.kind = r2c, .precision = element_type::f64, .length = n, .batch = 2});
    const auto return_plan =
        library_->prepare({.kind = c2r, .precision = element_type::f64, .length = n, .batch = 2});
    transform(*there, signal, spectrum);
    transform(*return_plan, spectrum, back, 1 / static_cast<double>(n));
    EXPECT_LE(relative_error(download(back, stream()), values), error_bound<double>());
  }
}

TEST_P(fft, c2c_works_in_place) {
  auto generator = make_generator();
  for (const std::size_t n : {1u, 6u, 97u, 128u, 202u}) {
    for (const fft_kind kind : {c2c_forward, c2c_inverse}) {
      const auto values = random_values<std::complex<float>>(generator, 3 * n);
      const auto apart = runtime().allocate<std::complex<float>>(3 * n, stream(), "test");
      const auto data = upload(runtime(), stream(), values);
      const auto plan = library_->prepare({.kind = kind, .length = n, .batch = 3});
      transform(*plan, data, apart);
      const auto expected = download(apart, stream());
      launch_recorder recorder = launch_recorder::strict(stream());
      recorder.read_write(data);
      recorder.preflight();
      library_->execute(*plan, data.data(), data.data(), 1);
      recorder.commit();
      EXPECT_LE(relative_error(download(data, stream()), expected), error_bound<float>());
    }
  }
}

TEST_P(fft, c2r_ignores_what_a_real_signal_has_no_place_for) {
  auto generator = make_generator();
  for (const std::size_t n : {1u, 2u, 9u, 64u, 202u}) {
    auto bins = random_values<std::complex<double>>(generator, n / 2 + 1);
    const auto plan = library_->prepare({.kind = c2r, .precision = element_type::f64, .length = n});
    const auto out = runtime().allocate<double>(n, stream(), "test");
    transform(*plan, upload(runtime(), stream(), bins), out);
    const auto first = download(out, stream());
    bins[0].imag(1000);
    if (n % 2 == 0) bins[n / 2].imag(-1000);
    transform(*plan, upload(runtime(), stream(), bins), out);
    EXPECT_LE(relative_error(download(out, stream()), first), error_bound<double>()) << n;
  }
}

TEST_P(fft, a_plan_is_made_once) {
  const fft_description description{.kind = r2c, .length = 100, .batch = 2};
  const auto plan = library_->prepare(description);
  EXPECT_EQ(library_->prepare(description), plan);
  fft_description spelled_out = description;
  spelled_out.input_distance = 100;
  spelled_out.output_distance = 51;
  EXPECT_EQ(library_->prepare(spelled_out), plan);
  for (std::size_t n = 1; n <= actors::fft_library::plan_cache_capacity; ++n) {
    EXPECT_NE(library_->prepare({.kind = c2r, .length = n}), plan);
  }
  EXPECT_NE(library_->prepare(description), plan);  // it has been pushed out
}

// Plans of one library share its workspace, which is replaced while launches that use the old one
// are queued.
TEST_P(fft, a_larger_plan_does_not_disturb_what_is_queued) {
  auto generator = make_generator();
  struct launch {
    std::shared_ptr<const actors::fft_plan> plan;
    std::vector<std::complex<float>> in;
    gpu_ref<std::complex<float>> input;
    gpu_ref<std::complex<float>> output;
  };
  std::vector<launch> launches;
  for (const std::size_t n : {1009u, 4099u, 1009u, 32771u, 65537u}) {
    launch l;
    l.in = random_values<std::complex<float>>(generator, n);
    l.input = upload(runtime(), stream(), l.in);
    l.output = runtime().allocate<std::complex<float>>(n, stream(), "test");
    launches.push_back(std::move(l));
  }
  for (launch& l : launches) {
    l.plan = library_->prepare({.kind = c2c_forward, .length = l.in.size()});
    transform(*l.plan, l.input, l.output);
  }
  for (const launch& l : launches) {
    const auto out = download(l.output, stream());
    const dft_reference dft(l.in.size(), -1);
    std::vector<std::complex<float>> computed;
    std::vector<wide> reference;
    for (std::size_t k = 0; k < l.in.size(); k += 1 + l.in.size() / 16) {
      computed.push_back(out[k]);
      reference.push_back(dft.bin(l.in.data(), k));
    }
    EXPECT_LE(relative_error(computed, reference), error_bound<float>());
  }
}

TEST_P(fft, the_library_may_go_before_its_work_is_done) {
  auto generator = make_generator();
  const std::size_t n = 4099;
  const auto in = random_values<std::complex<double>>(generator, n);
  const auto before = runtime().bytes_outstanding();
  {
    const auto input = upload(runtime(), stream(), in);
    const auto output = runtime().allocate<std::complex<double>>(n, stream(), "test");
    const auto plan =
        library_->prepare({.kind = c2c_forward, .precision = element_type::f64, .length = n});
    transform(*plan, input, output);
    library_.reset();
    // What comes next in stream order must not get the workspace's memory too early.
    const auto greedy = runtime().allocate<std::uint8_t>(1 << 20, stream(), "test");
    const std::uint8_t pattern = 0xff;
    launch_recorder recorder = launch_recorder::strict(stream());
    recorder.write(greedy);
    recorder.preflight();
    stream().device().fill(greedy.data(), &pattern, 1, greedy.size(), stream().native());
    recorder.commit();
    const auto out = download(output, stream());
    const dft_reference dft(n, -1);
    const std::vector<std::complex<double>> computed{out[0], out[1], out[2000], out[n - 1]};
    const std::vector<wide> reference{dft.bin(in.data(), 0), dft.bin(in.data(), 1),
                                      dft.bin(in.data(), 2000), dft.bin(in.data(), n - 1)};
    EXPECT_LE(relative_error(computed, reference), error_bound<double>());
  }
  stream().synchronize();
  EXPECT_EQ(runtime().bytes_outstanding(), before);
}

TEST_P(fft, no_rows_are_no_work) {
  const auto plan = library_->prepare({.kind = r2c, .length = 8, .batch = 0});
  library_->execute(*plan, nullptr, nullptr, 2);
  stream().synchronize();
}

template <class Function>
void expect_refused(Function function) {
  EXPECT_TRUE(throws(errc::invalid_argument, "", function));
}

TEST_P(fft, operands_are_checked) {
  const auto real = runtime().allocate<float>(64, stream(), "test");
  const auto complex = runtime().allocate<std::complex<float>>(64, stream(), "test");
  const auto forward = library_->prepare({.kind = r2c, .length = 8});
  expect_refused([&] { library_->execute(*forward, real.data() + 1, complex.data(), 1); });
  const auto back = library_->prepare({.kind = c2r, .length = 8});
  expect_refused([&] { library_->execute(*back, complex.data(), real.data() + 1, 1); });
  constexpr double infinite = std::numeric_limits<double>::infinity();
  expect_refused([&] { library_->execute(*forward, real.data(), complex.data(), infinite); });
  expect_refused([&] { library_->execute(*forward, complex.data(), complex.data(), 1); });
  expect_refused([&] { (void)library_->prepare({.length = 0}); });
}

INSTANTIATE_TEST_SUITE_P(devices, fft, every_device(), parameter_name);

TEST(fft_description, is_completed) {
  const fft_description d = completed({.kind = r2c, .length = 9, .batch = 4});
  EXPECT_EQ(d.input_distance, 9u);
  EXPECT_EQ(d.output_distance, 5u);
  EXPECT_EQ(input_extent(d), 36u);
  EXPECT_EQ(output_extent(d), 20u);
  EXPECT_EQ(input_type(d), element_type::f32);
  EXPECT_EQ(output_type(d), element_type::c64);
  const fft_description back =
      completed({.kind = c2r, .precision = element_type::f64, .length = 9, .input_distance = 6});
  EXPECT_EQ(back.input_distance, 6u);
  EXPECT_EQ(back.output_distance, 9u);
  EXPECT_EQ(input_type(back), element_type::c128);
  EXPECT_EQ(output_type(back), element_type::f64);
  EXPECT_EQ(output_extent(completed({.length = 5, .batch = 0})), 0u);
}

TEST(fft_description, is_checked) {
  constexpr std::size_t huge = std::numeric_limits<std::size_t>::max() / 2;
  expect_refused([] { (void)completed({.precision = element_type::c64, .length = 4}); });
  expect_refused([] { (void)completed({.length = 0}); });
  expect_refused([] { (void)completed({.length = huge}); });
  expect_refused([] { (void)completed({.length = 4, .batch = huge}); });
  expect_refused([] { (void)completed({.length = 4, .batch = 2, .input_distance = huge}); });
  expect_refused([] { (void)completed({.length = 4, .batch = 2, .output_distance = 3}); });
  expect_refused(
      [] { (void)completed({.kind = c2r, .length = 4, .batch = 2, .input_distance = 2}); });
  EXPECT_NO_THROW((void)completed({.kind = r2c, .length = 4, .batch = 2, .input_distance = 1}));
}

}  // namespace
}  // namespace sluice::test
