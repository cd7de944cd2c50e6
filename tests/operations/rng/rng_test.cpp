// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/rng/philox_reference.hpp"
#include "tests/operations/rng/random_test.hpp"
#include "tests/operations/strided.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace sluice::test {
namespace {

constexpr std::uint64_t last_element = std::numeric_limits<std::uint64_t>::max();

// sin(πt): t differs from the nearest integer by an exact difference, so that the result is good
// also near its zeros.
long double sine_of_half_turns(long double t) {
  const long double nearest = std::nearbyint(t);
  const long double sine = std::sin(3.14159265358979323846264338327950288L * (t - nearest));
  return std::fmod(nearest, 2) == 0 ? sine : -sine;
}

long double box_muller_reference(long double u, long double half_turns, bool sine) {
  return std::sqrt(-2 * std::log(u)) * sine_of_half_turns(sine ? half_turns : half_turns + 0.5L);
}

template <class T>
long double normal_reference(std::uint64_t seed, std::uint64_t i);
template <>
long double normal_reference<float>(std::uint64_t seed, std::uint64_t i) {
  const std::uint64_t first = i - i % 2;
  return box_muller_reference(uniform_reference<float>(seed, first),
                              2 * uniform_reference<float>(seed, first + 1), i % 2 == 0);
}
template <>
long double normal_reference<double>(std::uint64_t seed, std::uint64_t i) {
  const auto words = philox_block_of_double(seed, i);
  return box_muller_reference(unit(words[0], words[1]), 2 * unit(words[2], words[3]), i % 2 == 0);
}

/// The distance of `value` from `exact` in units of the last place of `exact` rounded to T.
template <class T>
double ulps_from(T value, long double exact) {
  const T rounded = std::abs(static_cast<T>(exact));
  const long double ulp = std::nextafter(rounded, std::numeric_limits<T>::infinity()) - rounded;
  return static_cast<double>(std::abs(value - exact) / ulp);
}

class rng : public random_test {
 protected:
  /// Offsets at which something changes: words of a block, blocks of a subsequence, 32 bits, the
  /// end; and any.
  std::vector<std::uint64_t> offsets(std::mt19937_64& generator) {
    return {0,
            1,
            2,
            3,
            4,
            5,
            262143,
            262144,
            262145,
            (1ull << 32) - 1,
            (1ull << 34) + 2,
            (1ull << 40) + 1,
            (1ull << 63) + 1,
            last_element - 2000,
            generator() >> 1,
            generator() >> 20};
  }
};

constexpr std::size_t some = 1999;

TEST_P(rng, bits_are_the_words_of_philox) {
  auto generator = make_generator();
  for (const std::uint64_t offset : offsets(generator)) {
    const std::uint64_t seed = generator();
    const auto values = make<std::uint32_t>({.distribution = random_distribution::bits,
                                             .type = element_type::u32,
                                             .seed = seed,
                                             .offset = offset,
                                             .count = some});
    for (std::size_t i = 0; i < some; ++i) {
      ASSERT_EQ(values[i], philox_word(seed, offset + i))
          << "seed " << seed << " element " << offset + i;
    }
  }
}

// Salmon et al.'s known answers for Philox4x32-10: of counter 0 and key 0.
TEST_P(rng, the_first_words_of_seed_0_are_the_published_ones) {
  const auto values = make<std::uint32_t>(
      {.distribution = random_distribution::bits, .type = element_type::u32, .count = 4});
  EXPECT_EQ(values, (std::vector<std::uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

template <class T, class Suite>
void expect_uniform(Suite make, std::mt19937_64& generator,
                    const std::vector<std::uint64_t>& offsets) {
  for (const std::uint64_t offset : offsets) {
    const std::uint64_t seed = generator();
    const std::vector<T> values =
        make(random_description{.distribution = random_distribution::uniform,
                                .type = element_type_v<T>,
                                .seed = seed,
                                .offset = offset,
                                .count = some});
    for (std::size_t i = 0; i < some; ++i) {
      ASSERT_EQ(values[i], uniform_reference<T>(seed, offset + i))
          << "seed " << seed << " element " << offset + i;
      ASSERT_GT(values[i], 0);
      ASSERT_LE(values[i], 1);
    }
  }
}

TEST_P(rng, uniform_numbers_are_as_defined_in_every_bit) {
  auto generator = make_generator();
  expect_uniform<float>([&](const auto& d) { return make<float>(d); }, generator,
                        offsets(generator));
  expect_uniform<double>([&](const auto& d) { return make<double>(d); }, generator,
                         offsets(generator));
}

template <class T, class Make>
void expect_normal(Make make, std::mt19937_64& generator, const std::vector<std::uint64_t>& offsets,
                   double bound) {
  for (const std::uint64_t offset : offsets) {
    const std::uint64_t seed = generator();
    const std::vector<T> values =
        make(random_description{.distribution = random_distribution::normal,
                                .type = element_type_v<T>,
                                .seed = seed,
                                .offset = offset,
                                .count = some});
    for (std::size_t i = 0; i < some; ++i) {
      const long double exact = normal_reference<T>(seed, offset + i);
      ASSERT_LE(ulps_from(values[i], exact), bound) << "seed " << seed << " element " << offset + i
                                                    << ": " << values[i] << " is not " << exact;
    }
  }
}

// The host rounds f32 once, so that the 4 ulp between the devices are left to the GPU.
TEST_P(rng, normal_numbers_are_box_muller_to_the_last_places) {
  auto generator = make_generator();
  expect_normal<float>([&](const auto& d) { return make<float>(d); }, generator, offsets(generator),
                       (GetParam() == "host") ? 0.501 : 4);
  expect_normal<double>([&](const auto& d) { return make<double>(d); }, generator,
                        offsets(generator), (GetParam() == "host") ? 2 : 4);
}

template <class T>
std::int64_t distance_in_ulps(T a, T b) {
  using bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  const auto ordered = [](T value) {
    const auto raw = std::bit_cast<bits>(value);
    return static_cast<std::int64_t>(raw < 0 ? std::numeric_limits<bits>::min() - raw : raw);
  };
  return std::abs(ordered(a) - ordered(b));
}

TEST_P(rng, the_devices_agree) {
  const auto host = std::make_shared<device_service>("host");
  const sluice::stream host_stream = host->runtime().create_stream();
  executor host_executor(host);
  host_executor.on_wake(waking());
  auto generator = make_generator();
  const auto compare = [&]<class T>(T, random_distribution distribution, std::int64_t bound) {
    const random_description description{.distribution = distribution,
                                         .type = element_type_v<T>,
                                         .seed = generator(),
                                         .offset = generator() >> 1,
                                         .count = 500'001};
    const auto here = make<T>(description);
    const auto there = generated<T>(host_executor, host_stream, description, 0);
    std::int64_t worst = 0;
    if constexpr (std::is_floating_point_v<T>) {
      for (std::size_t i = 0; i < here.size(); ++i) {
        worst = std::max(worst, distance_in_ulps(here[i], there[i]));
      }
    } else {
      worst = here == there ? 0 : 1;
    }
    EXPECT_LE(worst, bound) << static_cast<int>(distribution) << ' ' << to_string(element_type_v<T>)
                            << " seed " << description.seed << " offset " << description.offset;
  };
  compare(std::uint32_t{}, random_distribution::bits, 0);
  compare(float{}, random_distribution::uniform, 0);
  compare(double{}, random_distribution::uniform, 0);
  compare(float{}, random_distribution::normal, 4);
  compare(double{}, random_distribution::normal, 4);
}

TEST_P(rng, a_slice_is_that_part_of_the_whole) {
  auto generator = make_generator();
  const auto check = [&]<class T>(T, random_distribution distribution) {
    random_description whole{.distribution = distribution,
                             .type = element_type_v<T>,
                             .seed = generator(),
                             .offset = (generator() >> 30) * 4 + generator() % 4,
                             .count = 600};
    if (distribution == random_distribution::normal) whole.mean = 3;
    const auto all = make<T>(whole);
    for (int repetition = 0; repetition < 60; ++repetition) {
      random_description part = whole;
      const std::size_t begin = generator() % 590;
      part.offset = whole.offset + begin;
      part.count = repetition < 20 ? generator() % 10 : generator() % (600 - begin);
      // Also to memory that is aligned to no more than an element.
      const auto values = make<T>(part, generator() % 5);
      ASSERT_TRUE(std::equal(values.begin(), values.end(),
                             all.begin() + static_cast<std::ptrdiff_t>(begin)))
          << static_cast<int>(distribution) << " seed " << whole.seed << " offset " << part.offset
          << " count " << part.count;
    }
  };
  check(std::uint32_t{}, random_distribution::bits);
  check(float{}, random_distribution::uniform);
  check(double{}, random_distribution::uniform);
  check(float{}, random_distribution::normal);
  check(double{}, random_distribution::normal);
}

TEST_P(rng, numbers_of_any_strides_are_those_of_the_sequence) {
  auto generator = make_generator();
  const auto check = [&]<class T>(T, random_distribution distribution, const auto& expected) {
    for (int repetition = 0; repetition < 40; ++repetition) {
      extents shape;
      for (auto rank = generator() % 5; rank > 0; --rank) {
        shape.push_back(static_cast<std::int64_t>(generator() % 8));
      }
      strided<T> y(runtime(), stream(), generator, random_layout(generator, shape));
      const random_description description{.distribution = distribution,
                                           .type = element_type_v<T>,
                                           .seed = generator(),
                                           .offset = generator() >> 1};
      SCOPED_TRACE(to_string(shape) + " strides " + to_string(y.view().strides()) + " seed " +
                   std::to_string(description.seed));
      EXPECT_EQ(draw(test_executor(), description, y.view()), y.view());
      auto current = y.current();
      auto i = description.offset;
      for_each_index(shape, [&](const extents& index) {
        auto& value = current[y.position(index)];
        expected(value, description.seed, i++);
        value = y[index];
      });
      EXPECT_EQ(current, y.memory()) << "a gap was written";
    }
  };
  check(std::uint32_t{}, random_distribution::bits,
        [](auto value, auto seed, auto i) { ASSERT_EQ(value, philox_word(seed, i)); });
  check(float{}, random_distribution::uniform,
        [](auto value, auto seed, auto i) { ASSERT_EQ(value, uniform_reference<float>(seed, i)); });
  check(double{}, random_distribution::uniform, [](auto value, auto seed, auto i) {
    ASSERT_EQ(value, uniform_reference<double>(seed, i));
  });
  check(float{}, random_distribution::normal, [](auto value, auto seed, auto i) {
    ASSERT_LE(ulps_from(value, normal_reference<float>(seed, i)), 4);
  });
  check(double{}, random_distribution::normal, [](auto value, auto seed, auto i) {
    ASSERT_LE(ulps_from(value, normal_reference<double>(seed, i)), 4);
  });
}

TEST_P(rng, mean_and_deviation_are_a_product_and_then_a_sum) {
  auto generator = make_generator();
  const auto check = [&]<class T>(T) {
    random_description description{.distribution = random_distribution::normal,
                                   .type = element_type_v<T>,
                                   .seed = generator(),
                                   .offset = generator() >> 1,
                                   .count = 10'001};
    const auto standard = make<T>(description);
    std::normal_distribution<double> any;
    description.mean = any(generator);
    description.stddev = std::abs(any(generator));
    const auto values = make<T>(description);
    std::size_t fused_differs = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const volatile T product = standard[i] * static_cast<T>(description.stddev);
      const volatile T sum = product + static_cast<T>(description.mean);
      ASSERT_EQ(values[i], sum) << description.mean << ' ' << description.stddev;
      fused_differs += std::fma(standard[i], static_cast<T>(description.stddev),
                                static_cast<T>(description.mean)) != sum
                           ? 1
                           : 0;
    }
    EXPECT_GT(fused_differs, 0u);  // or the check above could not tell
  };
  check(float{});
  check(double{});
}

TEST_P(rng, deviation_0_gives_the_mean) {
  const auto values = make<float>({.distribution = random_distribution::normal,
                                   .type = element_type::f32,
                                   .count = 100,
                                   .mean = 1.5,
                                   .stddev = 0});
  EXPECT_EQ(values, std::vector<float>(100, 1.5f));
}

// Of a fixed seed, so that the verdict is always the same. For n independent numbers each estimate
// below is asymptotically normal with the given deviation; 5 of them are passed by chance once in
// 1.7 million.
template <class T>
void expect_moments(const std::vector<T>& values, long double mean, long double variance,
                    long double skewness, long double kurtosis, long double mean_deviation,
                    long double variance_deviation, long double skewness_deviation,
                    long double kurtosis_deviation) {
  const auto n = static_cast<long double>(values.size());
  long double sum = 0;
  for (const T v : values) sum += v;
  const long double average = sum / n;
  long double m2 = 0;
  long double m3 = 0;
  long double m4 = 0;
  for (const T v : values) {
    const long double d = v - average;
    m2 += d * d;
    m3 += d * d * d;
    m4 += d * d * d * d;
  }
  m2 /= n;
  m3 /= n;
  m4 /= n;
  const long double root = std::sqrt(n);
  EXPECT_LE(std::abs(average - mean), 5 * mean_deviation / root);
  EXPECT_LE(std::abs(m2 - variance), 5 * variance_deviation / root);
  EXPECT_LE(std::abs(m3 / std::pow(m2, 1.5L) - skewness), 5 * skewness_deviation / root);
  EXPECT_LE(std::abs(m4 / (m2 * m2) - kurtosis), 5 * kurtosis_deviation / root);
}

TEST_P(rng, the_moments_are_those_of_the_distributions) {
  const std::size_t count = 1'000'000;
  const auto uniform = [&](element_type type) {
    return random_description{.distribution = random_distribution::uniform,
                              .type = type,
                              .seed = 20'260'101,
                              .count = count};
  };
  const auto normal = [&](element_type type) {
    return random_description{.distribution = random_distribution::normal,
                              .type = type,
                              .seed = 20'260'101,
                              .count = count};
  };
  // Uniform: the deviations of the estimates of skewness and kurtosis are below those of a normal
  // sample, √6 and √24, which serve as bounds.
  const long double deviation = std::sqrt(1.0L / 12);
  const long double of_variance = std::sqrt(1.0L / 80 - 1.0L / 144);
  expect_moments(make<float>(uniform(element_type::f32)), 0.5L, 1.0L / 12, 0, 1.8L, deviation,
                 of_variance, std::sqrt(6.0L), std::sqrt(24.0L));
  expect_moments(make<double>(uniform(element_type::f64)), 0.5L, 1.0L / 12, 0, 1.8L, deviation,
                 of_variance, std::sqrt(6.0L), std::sqrt(24.0L));
  expect_moments(make<float>(normal(element_type::f32)), 0, 1, 0, 3, 1, std::sqrt(2.0L),
                 std::sqrt(6.0L), std::sqrt(24.0L));
  expect_moments(make<double>(normal(element_type::f64)), 0, 1, 0, 3, 1, std::sqrt(2.0L),
                 std::sqrt(6.0L), std::sqrt(24.0L));
}

TEST_P(rng, no_elements_are_no_work) {
  EXPECT_TRUE(
      run(test_executor(), random_uniform{.shape = extents{0, 3}, .offset = last_element}).empty());
}

TEST_P(rng, makes_new_tensors) {
  const auto y =
      run(test_executor(), random_uniform{.shape = extents{3, 5}, .type = element_type::f64});
  EXPECT_EQ(y.shape(), (extents{3, 5}));
  EXPECT_EQ(y.type(), element_type::f64);
  EXPECT_EQ(run(test_executor(), random_normal{.shape = extents{}}).size(), 1U);
  EXPECT_EQ(run(test_executor(), random_bits{.shape = extents{7}}).type(), element_type::u32);
}

TEST_P(rng, the_sequence_ends_at_2_to_the_64) {
  random_description description{.distribution = random_distribution::bits,
                                 .type = element_type::u32,
                                 .seed = 7,
                                 .offset = last_element - 4,
                                 .count = 5};
  const auto values = make<std::uint32_t>(description, 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i], philox_word(7, description.offset + i));
  }
  description.count = 6;
  EXPECT_TRUE(throws(errc::invalid_argument, "offset: 18446744073709551611",
                     [&] { (void)make<std::uint32_t>(description); }));
}

TEST_P(rng, refuse_arguments_by_name) {
  constexpr auto nan = std::numeric_limits<double>::quiet_NaN();
  const extents some_shape{4};
  const tensor words = runtime().allocate<std::uint32_t>(4, stream(), "test");
  const tensor numbers = runtime().allocate<float>(8, stream(), "test");
  const auto expect_refused = [&](const std::string& text, auto operation) {
    SCOPED_TRACE(text);
    const auto before = runtime().statistics();
    EXPECT_TRUE(throws(errc::invalid_argument, text,
                       [&] { (void)run(test_executor(), std::move(operation)); }));
    EXPECT_EQ(runtime().statistics().launches, before.launches);
    EXPECT_EQ(runtime().statistics().peak_bytes, before.peak_bytes);
  };
  expect_refused("shape: is not given", random_bits{});
  expect_refused("shape: [-1]", random_bits{.shape = extents{-1}});
  expect_refused("shape: the size", random_bits{.shape = extents{1LL << 40, 1LL << 40}});
  expect_refused("y: is of type f32", random_bits{.y = numbers});
  expect_refused("y: has the shape [8]", random_uniform{.shape = some_shape, .y = numbers});
  expect_refused("y: is u32", random_uniform{.y = words});
  expect_refused("type: is c64", random_normal{.shape = some_shape, .type = element_type::c64});
  expect_refused("y: has the shape", random_uniform{.y = numbers.slice(0, 0, 1).broadcast_to({8})});
  expect_refused("seed: -1 is negative", random_bits{.shape = some_shape, .seed = -1});
  expect_refused("offset: 0.5 is not an integer", random_bits{.shape = some_shape, .offset = 0.5});
  expect_refused("offset: ", random_bits{.shape = some_shape, .offset = last_element});
  expect_refused("mean: nan", random_normal{.shape = some_shape, .mean = nan});
  expect_refused("mean: 1e+300", random_normal{.shape = some_shape, .mean = 1e300});
  expect_refused("stddev: -1 is negative", random_normal{.shape = some_shape, .stddev = -1});
  expect_refused("stddev: nan", random_normal{.shape = some_shape, .stddev = nan});
}

INSTANTIATE_TEST_SUITE_P(devices, rng, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
