// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/rng/random_test.hpp"
#include "tests/support/seed.hpp"

#include <curand.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

// cuRAND's host generator needs neither a GPU nor a driver, so these run wherever the toolkit is.

namespace sluice::test {
namespace {

void check(curandStatus_t status) {
  if (status != CURAND_STATUS_SUCCESS) {
    throw std::runtime_error("cuRAND answered " + std::to_string(static_cast<int>(status)));
  }
}

class curand_generator {
 public:
  curand_generator(std::uint64_t seed, std::uint64_t offset) {
    check(curandCreateGeneratorHost(&generator_, CURAND_RNG_PSEUDO_PHILOX4_32_10));
    check(curandSetGeneratorOrdering(generator_, CURAND_ORDERING_PSEUDO_DEFAULT));
    check(curandSetPseudoRandomGeneratorSeed(generator_, seed));
    check(curandSetGeneratorOffset(generator_, offset));
  }
  curand_generator(const curand_generator&) = delete;
  curand_generator& operator=(const curand_generator&) = delete;
  ~curand_generator() { curandDestroyGenerator(generator_); }

  template <class T, class Generate>
  std::vector<T> make(std::size_t count, Generate generate) {
    std::vector<T> values(count);
    check(generate(generator_, values.data()));
    return values;
  }

 private:
  curandGenerator_t generator_ = nullptr;
};

class against_curand : public random_test {
 protected:
  template <class T>
  std::vector<T> make(random_distribution distribution, std::uint64_t seed, std::uint64_t offset,
                      std::size_t count) {
    return random_test::make<T>({.distribution = distribution,
                                 .type = element_type_v<T>,
                                 .seed = seed,
                                 .offset = offset,
                                 .count = count});
  }
};

constexpr std::uint64_t offsets[] = {0, 1, 3, 5, 262143, 262145, (1ull << 40) + 1};
// More than the 262,144 elements after which the order comes back to the first subsequence.
constexpr std::size_t count = 300'001;

TEST_P(against_curand, bits_are_equal) {
  auto generator = make_generator();
  for (const std::uint64_t offset : offsets) {
    const std::uint64_t seed = generator();
    const auto theirs = curand_generator(seed, offset)
                            .make<std::uint32_t>(count, [](curandGenerator_t g, std::uint32_t* v) {
                              return curandGenerate(g, v, count);
                            });
    EXPECT_TRUE(make<std::uint32_t>(random_distribution::bits, seed, offset, count) == theirs)
        << "seed " << seed << " offset " << offset;
  }
}

TEST_P(against_curand, f32_uniforms_are_equal_in_every_bit) {
  auto generator = make_generator();
  for (const std::uint64_t offset : offsets) {
    const std::uint64_t seed = generator();
    const auto theirs =
        curand_generator(seed, offset).make<float>(count, [](curandGenerator_t g, float* v) {
          return curandGenerateUniform(g, v, count);
        });
    EXPECT_TRUE(make<float>(random_distribution::uniform, seed, offset, count) == theirs)
        << "seed " << seed << " offset " << offset;
  }
}

// cuRAND's own offset is wrong for f64: slices of the whole sequence are.
TEST_P(against_curand, f64_uniforms_are_slices_of_the_whole_sequence) {
  auto generator = make_generator();
  const std::size_t whole = 262145 + count;
  const std::uint64_t seed = generator();
  const auto theirs = curand_generator(seed, 0).make<double>(
      whole,
      [](curandGenerator_t g, double* v) { return curandGenerateUniformDouble(g, v, whole); });
  for (const std::uint64_t offset : offsets) {
    if (offset >= whole) continue;
    const auto first = theirs.begin() + static_cast<std::ptrdiff_t>(offset);
    EXPECT_TRUE(make<double>(random_distribution::uniform, seed, offset, count) ==
                std::vector<double>(first, first + count))
        << "seed " << seed << " offset " << offset;
  }
}

// cuRAND rounds the angle before it takes the sine, so its normals differ by the radius (at most
// 6.7 for f32, 8.7 for f64) times that rounding.
TEST_P(against_curand, normals_differ_by_the_rounding_of_the_angle) {
  auto generator = make_generator();
  const std::size_t even = 600'000;
  const std::uint64_t seed = generator();
  const auto single = curand_generator(seed, 0).make<float>(
      even, [](curandGenerator_t g, float* v) { return curandGenerateNormal(g, v, even, 0, 1); });
  const auto ours = make<float>(random_distribution::normal, seed, 0, even);
  for (std::size_t i = 0; i < even; ++i) ASSERT_NEAR(ours[i], single[i], 6.7 * 7e-7) << i;

  const auto twice = curand_generator(seed, 0).make<double>(
      even,
      [](curandGenerator_t g, double* v) { return curandGenerateNormalDouble(g, v, even, 0, 1); });
  const auto ours_twice = make<double>(random_distribution::normal, seed, 0, even);
  for (std::size_t i = 0; i < even; ++i) ASSERT_NEAR(ours_twice[i], twice[i], 8.7 * 1.5e-15) << i;
}

INSTANTIATE_TEST_SUITE_P(devices, against_curand, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
