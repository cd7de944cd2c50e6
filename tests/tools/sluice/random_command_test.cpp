// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/rng/philox_reference.hpp"
#include "tests/support/seed.hpp"
#include "tests/tools/sluice/program.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

class random_command : public program_test {
 protected:
  template <class T>
  [[nodiscard]] std::vector<T> draw(std::vector<std::string> options) const {
    options.insert(options.begin(), {"random", "-o", "out.npy"});
    expect_success(options);
    const io::array out = load("out.npy");
    return {out.values<T>().begin(), out.values<T>().end()};
  }
};

TEST_F(random_command, uniform_numbers_are_philox_in_curand_order) {
  auto generator = make_generator();
  for (const std::string& device : program_devices()) {
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{5}, std::uint64_t{262'143},
                                       (std::uint64_t{1} << 40) + 1, generator() >> 1}) {
      const std::uint64_t seed = generator();
      const std::vector<std::string> options{
          "--shape",  "600", "--seed", std::to_string(seed), "--offset", std::to_string(offset),
          "--device", device};
      const auto single = draw<float>(options);
      ASSERT_EQ(single.size(), 600u);
      for (std::size_t i = 0; i < single.size(); ++i)
        ASSERT_EQ(single[i], uniform_reference<float>(seed, offset + i))
            << seed << ' ' << offset << ' ' << i;
      auto wide = options;
      wide.insert(wide.end(), {"--dtype", "f64", "--distribution", "uniform"});
      const auto values = draw<double>(wide);
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(values[i], uniform_reference<double>(seed, offset + i))
            << seed << ' ' << offset << ' ' << i;
    }
  }
}

TEST_F(random_command, defaults_are_f32_uniform_seed_0_offset_0) {
  const auto plain = draw<float>({"--shape", "3,5"});
  expect_npy_header(folder() / "out.npy", "<f4", {3, 5});
  for (std::size_t i = 0; i < plain.size(); ++i)
    EXPECT_EQ(plain[i], uniform_reference<float>(0, i));
  const auto said = draw<float>({"--shape", "3,5", "--dtype", "f32", "--distribution", "uniform",
                                 "--seed", "0", "--offset", "0"});
  EXPECT_EQ(plain, said);
}

/// Moments, slices, and mean and deviation, which are a product and a sum.
template <class T, class Draw>
void check_normal(const std::string& dtype, const std::string& device, Draw draw) {
  const std::vector<std::string> common{"--dtype", dtype, "--distribution", "normal",
                                        "--seed",  "7",   "--device",       device};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), common.begin(), common.end());
    return more;
  };
  const std::vector<T> z = draw(with({"--shape", "100000"}));
  double sum = 0;
  double squares = 0;
  for (const T value : z) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const auto count = static_cast<double>(z.size());
  EXPECT_LT(std::abs(sum / count), 6 / std::sqrt(count));
  EXPECT_LT(std::abs(squares / count - 1), 6 * std::sqrt(2 / count));

  const std::vector<T> part = draw(with({"--shape", "5,11", "--offset", "9973"}));
  for (std::size_t i = 0; i < part.size(); ++i) ASSERT_EQ(part[i], z[9973 + i]);

  const std::vector<T> moved =
      draw(with({"--shape", "1000", "--mean", "-3.25", "--stddev", "0.7"}));
  for (std::size_t i = 0; i < moved.size(); ++i) {
    const T scaled = z[i] * static_cast<T>(0.7);
    ASSERT_EQ(moved[i], scaled + static_cast<T>(-3.25));
  }
  const std::vector<T> constant = draw(with({"--shape", "10", "--mean", "2", "--stddev", "0"}));
  for (const T value : constant) EXPECT_EQ(value, T{2});
}

TEST_F(random_command, normal_numbers) {
  for (const std::string& device : program_devices()) {
    check_normal<float>("f32", device, [&](const std::vector<std::string>& options) {
      return draw<float>(options);
    });
    check_normal<double>("f64", device, [&](const std::vector<std::string>& options) {
      return draw<double>(options);
    });
  }
}

TEST_F(random_command, the_whole_range_of_seed_and_offset) {
  constexpr std::uint64_t most = ~std::uint64_t{0};
  const std::string text = std::to_string(most);
  EXPECT_EQ(draw<float>({"--shape", "1", "--seed", text, "--offset", text}),
            std::vector<float>{uniform_reference<float>(most, most)});
  EXPECT_EQ(draw<float>({"--shape", "0", "--offset", text}), std::vector<float>{});
  expect_refused({"--offset"}, {"random", "-o", "out.npy", "--shape", "2", "--offset", text});
  for (const char* option : {"--seed", "--offset"}) {
    for (const char* value :
         {"-1", "18446744073709551616", "1.5", "1e3", "0x1", "", " 1", "1 ", "+1"})
      expect_refused({option}, {"random", "-o", "out.npy", "--shape", "3", option, value});
  }
}

TEST_F(random_command, empty_arrays) {
  for (const std::string& device : program_devices()) {
    EXPECT_TRUE(draw<float>({"--shape", "0", "--device", device}).empty());
    expect_npy_header(folder() / "out.npy", "<f4", {0});
    EXPECT_TRUE(draw<double>({"--shape", "3,0,4", "--dtype", "f64", "--distribution", "normal",
                              "--device", device})
                    .empty());
    expect_npy_header(folder() / "out.npy", "<f8", {3, 0, 4});
  }
}

TEST_F(random_command, refuses_shapes) {
  std::string many = "1";
  for (int i = 0; i < 64; ++i) many += ",1";
  for (const std::string& shape :
       {std::string(""), std::string(","), std::string("3,"), std::string("3,,4"),
        std::string("-3"), std::string("3x4"), std::string("3, 4"), std::string("(3,4)"),
        std::string("3.0"), std::string("4294967296,4294967296"),
        std::string("9223372036854775807"), std::string("9223372036854775808"),
        std::string("99999999999999999999"),
        std::string("9223372036854775807,9223372036854775807,0"), std::string("1000000000000000"),
        many}) {
    expect_refused({"--shape"}, {"random", "-o", "out.npy", "--shape", shape});
  }
  expect_refused({"--shape"}, {"random", "-o", "out.npy"});
}

TEST_F(random_command, refuses_distributions) {
  const auto refused = [&](const std::string& option, std::vector<std::string> more) {
    more.insert(more.begin(), {"random", "-o", "out.npy", "--shape", "3"});
    expect_refused({option}, more);
  };
  refused("--dtype", {"--dtype", "f16"});
  refused("--dtype", {"--dtype", "F32"});
  refused("--distribution", {"--distribution", "poisson"});
  refused("--mean", {"--mean", "0"});
  refused("--stddev", {"--stddev", "1"});
  refused("--mean", {"--distribution", "uniform", "--mean", "1"});
  for (const char* value : {"nan", "inf", "1e39", "1e999", "one", "1,5", ""}) {
    refused("--mean", {"--distribution", "normal", "--mean", value});
    refused("--stddev", {"--distribution", "normal", "--stddev", value});
  }
  refused("--stddev", {"--distribution", "normal", "--stddev", "-1"});
  refused("--stddev", {"--distribution", "normal", "--stddev", "-1e-300", "--dtype", "f64"});
}

}  // namespace
}  // namespace sluice::test
