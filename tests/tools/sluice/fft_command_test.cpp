// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/fft/dft.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/relative_error.hpp"
#include "tests/support/seed.hpp"
#include "tests/tools/sluice/program.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

using complex = std::complex<double>;
using complexes = std::vector<complex>;
using dimensions = std::vector<std::int64_t>;

/// The transform of a row cut or padded to n.
complexes transform(complexes row, std::size_t n, int sign) {
  row.resize(n);
  return dft(row.data(), n, sign);
}

/// n real numbers from the first bins of a Hermitian spectrum; the others are the mirrored ones.
std::vector<double> real_transform(complexes row, std::size_t n) {
  row.resize(n / 2 + 1);
  auto result = inverse_real_dft(row.data(), n);
  for (double& value : result) value /= static_cast<double>(n);
  return result;
}

template <class T>
complexes widened(std::span<const T> values) {
  complexes wide;
  for (const T value : values) wide.emplace_back(value);
  return wide;
}

/// What one run is to do.
struct fft_case {
  dimensions shape;
  bool inverse = false;
  std::optional<std::int64_t> length;
};

class fft_command : public program_test {
 protected:
  /// Saves `values`, runs the program and returns its result, whose shape was checked.
  template <class T>
  io::array result_of(const fft_case& test_case, const std::vector<T>& values,
                      const std::string& device, std::int64_t row) const {
    save<T>("x.npy", test_case.shape, values);
    std::vector<std::string> arguments{"fft", "x.npy", "-o", "out.npy", "--device", device};
    if (test_case.inverse) arguments.push_back("--inverse");
    if (test_case.length)
      arguments.insert(arguments.end(), {"--length", std::to_string(*test_case.length)});
    expect_success(arguments);
    io::array out = load("out.npy");
    dimensions expected = test_case.shape;
    expected.back() = row;
    EXPECT_EQ(out.shape, expected) << ::testing::PrintToString(arguments);
    return out;
  }

  /// Calls `check` for each row with the given elements; returns all that it returns, joined.
  template <class T, class Check>
  auto rows(const std::vector<T>& values, std::int64_t length, Check check) const {
    decltype(check(complexes{})) all;
    for (std::size_t first = 0; first < values.size(); first += static_cast<std::size_t>(length)) {
      const auto row = check(
          widened(std::span<const T>(values).subspan(first, static_cast<std::size_t>(length))));
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }

  template <class Real>
  void check_real(std::mt19937_64& generator, const fft_case& test_case,
                  const std::string& device) const {
    const auto values = random_values<Real>(generator, count_of(test_case.shape));
    const std::int64_t n = test_case.length.value_or(test_case.shape.back());
    const io::array out = result_of(test_case, values, device, n / 2 + 1);
    const auto expected = rows(values, test_case.shape.back(), [&](const complexes& row) {
      complexes half = transform(row, static_cast<std::size_t>(n), -1);
      half.resize(static_cast<std::size_t>(n / 2 + 1));
      return half;
    });
    EXPECT_LE(relative_error(out.values<std::complex<Real>>(), expected), error_bound<Real>());
  }

  template <class Real>
  void check_complex(std::mt19937_64& generator, const fft_case& test_case,
                     const std::string& device) const {
    const auto values = random_values<std::complex<Real>>(generator, count_of(test_case.shape));
    const std::int64_t n = test_case.length.value_or(test_case.shape.back());
    const auto size = static_cast<std::size_t>(n);
    const io::array out = result_of(test_case, values, device, n);
    if (test_case.inverse && test_case.length) {
      const auto expected = rows(values, test_case.shape.back(),
                                 [&](const complexes& row) { return real_transform(row, size); });
      EXPECT_LE(relative_error(out.values<Real>(), expected), error_bound<Real>());
      return;
    }
    const auto expected = rows(values, test_case.shape.back(), [&](const complexes& row) {
      complexes all = transform(row, size, test_case.inverse ? +1 : -1);
      if (test_case.inverse) {
        for (complex& value : all) value /= static_cast<double>(n);
      }
      return all;
    });
    EXPECT_LE(relative_error(out.values<std::complex<Real>>(), expected), error_bound<Real>());
  }

  static std::size_t count_of(const dimensions& shape) {
    std::size_t count = 1;
    for (const std::int64_t dimension : shape) count *= static_cast<std::size_t>(dimension);
    return count;
  }

  static fft_case random_case(std::mt19937_64& generator) {
    fft_case test_case;
    for (std::int64_t axis = integer(generator, 0, 2); axis > 0; --axis)
      test_case.shape.push_back(integer(generator, 1, 4));
    test_case.shape.push_back(integer(generator, 1, 60));
    if (integer(generator, 0, 1) == 1) test_case.length = integer(generator, 1, 80);
    return test_case;
  }
};

TEST_F(fft_command, real_input_gives_the_half_spectrum) {
  auto generator = make_generator();
  for (const std::string& device : program_devices()) {
    for (int i = 0; i < 6; ++i) {
      check_real<float>(generator, random_case(generator), device);
      check_real<double>(generator, random_case(generator), device);
    }
    check_real<float>(generator, {.shape = {1}, .length = {}}, device);
    check_real<double>(generator, {.shape = {8}, .length = 9}, device);
    check_real<double>(generator, {.shape = {9}, .length = 8}, device);
  }
}

TEST_F(fft_command, complex_input_forward_and_back) {
  auto generator = make_generator();
  for (const std::string& device : program_devices()) {
    for (const bool inverse : {false, true}) {
      for (int i = 0; i < 5; ++i) {
        fft_case test_case = random_case(generator);
        test_case.inverse = inverse;
        if (inverse) test_case.length.reset();
        check_complex<float>(generator, test_case, device);
        check_complex<double>(generator, test_case, device);
      }
    }
  }
}

TEST_F(fft_command, inverse_with_length_gives_real_numbers) {
  auto generator = make_generator();
  for (const std::string& device : program_devices()) {
    for (int i = 0; i < 5; ++i) {
      fft_case test_case = random_case(generator);
      test_case.inverse = true;
      test_case.length = integer(generator, 1, 90);
      check_complex<float>(generator, test_case, device);
      check_complex<double>(generator, test_case, device);
    }
    check_complex<double>(generator, {.shape = {5}, .inverse = true, .length = 1}, device);
    check_complex<double>(generator, {.shape = {2, 5}, .inverse = true, .length = 8}, device);
    check_complex<double>(generator, {.shape = {2, 5}, .inverse = true, .length = 9}, device);
    check_complex<double>(generator, {.shape = {2, 1}, .inverse = true, .length = 12}, device);
  }
}

// As `numpy.fft.ifft` and `irfft` take them.
TEST_F(fft_command, the_inverse_takes_real_numbers_as_complex_ones) {
  auto generator = make_generator();
  const auto check = [&](auto zero, const fft_case& test_case, const std::string& device) {
    using real = decltype(zero);
    const auto values = random_values<real>(generator, count_of(test_case.shape));
    const auto n = test_case.length.value_or(test_case.shape.back());
    const auto size = static_cast<std::size_t>(n);
    const io::array out = result_of(test_case, values, device, n);
    if (test_case.length) {
      const auto expected = rows(values, test_case.shape.back(),
                                 [&](const complexes& row) { return real_transform(row, size); });
      EXPECT_LE(relative_error(out.values<real>(), expected), error_bound<real>());
    } else {
      const auto expected = rows(values, test_case.shape.back(), [&](const complexes& row) {
        complexes all = transform(row, size, +1);
        for (complex& value : all) value /= static_cast<double>(n);
        return all;
      });
      EXPECT_LE(relative_error(out.values<std::complex<real>>(), expected), error_bound<real>());
    }
  };
  for (const std::string& device : program_devices()) {
    for (int i = 0; i < 4; ++i) {
      fft_case test_case = random_case(generator);
      test_case.inverse = true;
      check(float{}, test_case, device);
      check(double{}, test_case, device);
    }
  }
}

// Without the division by the length, the sums are infinite.
TEST_F(fft_command, the_inverse_of_large_numbers_is_finite) {
  auto generator = make_generator();
  for (const std::string& device : program_devices()) {
    for (const bool real_result : {false, true}) {
      const std::int64_t n = integer(generator, 100, 3000);
      const auto bins = real_result ? n / 2 + 1 : n;
      auto values = random_values<std::complex<float>>(generator, static_cast<std::size_t>(bins));
      // Numbers of one sign add up at index 0.
      for (auto& z : values) z = {3e38F * std::abs(z.real()), z.imag()};
      fft_case test_case{.shape = {bins}, .inverse = true, .length = {}};
      if (real_result) test_case.length = n;
      const io::array out = result_of(test_case, values, device, n);
      const auto row = widened(std::span<const std::complex<float>>(values));
      if (real_result) {
        EXPECT_LE(
            relative_error(out.values<float>(), real_transform(row, static_cast<std::size_t>(n))),
            error_bound<float>(static_cast<std::size_t>(n)));
      } else {
        complexes expected = transform(row, static_cast<std::size_t>(n), +1);
        for (complex& value : expected) value /= static_cast<double>(n);
        EXPECT_LE(relative_error(out.values<std::complex<float>>(), expected),
                  error_bound<float>(static_cast<std::size_t>(n)));
      }
    }
  }
}

TEST_F(fft_command, keeps_the_precision) {
  save<float>("f4.npy", {4}, {1, 2, 3, 4});
  save<double>("f8.npy", {4}, {1, 2, 3, 4});
  save<std::complex<float>>("c8.npy", {4}, {1, 2, 3, 4});
  save<std::complex<double>>("c16.npy", {4}, {1, 2, 3, 4});
  const auto expect = [&](std::vector<std::string> arguments, std::string_view descr,
                          const dimensions& shape) {
    arguments.insert(arguments.begin(), "fft");
    arguments.insert(arguments.end(), {"-o", "out.npy"});
    expect_success(arguments);
    expect_npy_header(folder() / "out.npy", descr, shape);
  };
  expect({"f4.npy"}, "<c8", {3});
  expect({"f8.npy"}, "<c16", {3});
  expect({"c8.npy"}, "<c8", {4});
  expect({"c16.npy"}, "<c16", {4});
  expect({"f4.npy", "--inverse"}, "<c8", {4});
  expect({"f8.npy", "--inverse", "--length", "7"}, "<f8", {7});
  expect({"c8.npy", "--inverse"}, "<c8", {4});
  expect({"c16.npy", "--inverse"}, "<c16", {4});
  expect({"c8.npy", "--inverse", "--length", "7"}, "<f4", {7});
  expect({"c16.npy", "--inverse", "--length", "7"}, "<f8", {7});
}

TEST_F(fft_command, empty_batches) {
  save<float>("x.npy", {0, 6}, {});
  save<std::complex<double>>("c.npy", {2, 0, 3}, {});
  for (const std::string& device : program_devices()) {
    expect_success({"fft", "x.npy", "-o", "out.npy", "--device", device});
    expect_npy_header(folder() / "out.npy", "<c8", {0, 4});
    expect_success({"fft", "x.npy", "-o", "out.npy", "--length", "11", "--device", device});
    expect_npy_header(folder() / "out.npy", "<c8", {0, 6});
    expect_success(
        {"fft", "c.npy", "-o", "out.npy", "--inverse", "--length", "5", "--device", device});
    expect_npy_header(folder() / "out.npy", "<f8", {2, 0, 5});
  }
  // A length of which no plan could be made.
  write_text(folder() / "long.npy", npy_file("<f4", false, "(0, 1125899906842624)", ""));
  expect_success({"fft", "long.npy", "-o", "out.npy"});
  expect_npy_header(folder() / "out.npy", "<c8", {0, 562949953421313});
}

TEST_F(fft_command, refuses_what_cannot_be_transformed) {
  save<float>("x.npy", {3, 4}, std::vector<float>(12, 1));
  save<float>("scalar.npy", {}, {1});
  save<float>("empty.npy", {3, 0}, {});
  save<std::int64_t>("integers.npy", {4}, {1, 2, 3, 4});
  expect_refused({"scalar.npy"}, {"fft", "scalar.npy", "-o", "out.npy"});
  expect_refused({"empty.npy"}, {"fft", "empty.npy", "-o", "out.npy"});
  expect_refused({"empty.npy"}, {"fft", "empty.npy", "-o", "out.npy", "--length", "4"});
  expect_refused({"integers.npy"}, {"fft", "integers.npy", "-o", "out.npy"});
  expect_refused({"missing.npy"}, {"fft", "missing.npy", "-o", "out.npy"});
  write_text(folder() / "wide.npy", npy_file("<f4", false, "(1099511627776, 0, 8)", ""));
  expect_refused({"--length"}, {"fft", "wide.npy", "-o", "out.npy", "--length", "1099511627776"});
  for (const char* length : {"0", "-1", "3.5", "4x", "", "1e3", "9223372036854775807",
                             "9223372036854775808", "1000000000000000"})
    expect_refused({"--length"}, {"fft", "x.npy", "-o", "out.npy", "--length", length});
}

}  // namespace
}  // namespace sluice::test
