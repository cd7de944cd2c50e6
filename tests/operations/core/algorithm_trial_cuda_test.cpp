// SPDX-License-Identifier: Apache-2.0
// Trials of algorithms. The algorithms here are copies, whose times differ by orders of magnitude.
#include "operations/core/algorithm_trial_cuda.hpp"

#include "tests/operations/executing.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/envelope/device_service.hpp>
#include <sluice/operations/blas.hpp>
#include <sluice/runtime/float16.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sluice::test {
namespace {

class algorithm_trial : public device_test {
 protected:
  static constexpr std::size_t block_bytes = std::size_t{64} << 20U;

  void SetUp() override {
    device_test::SetUp();
    if (IsSkipped()) return;
    block_ = runtime().allocate_bytes(2 * block_bytes, stream(), "algorithms");
  }
  void TearDown() override {
    block_ = block_ref();
    device_test::TearDown();
  }

  /// Tries algorithms that copy so many bytes; 0: the library does not take the call. Counts calls.
  std::optional<std::size_t> fastest(const std::vector<std::size_t>& bytes) {
    const current_device_scope current(runtime().device());
    lane_libraries libraries(runtime(), stream(),
                             {.policy = algorithm_policy::fastest, .has_nothing_in_flight = [&] {
                                return checks_++ < busy_after_;
                              }});
    calls_.assign(bytes.size(), 0);
    return cuda::fastest_algorithm(libraries, bytes.size(), [&](std::size_t i) {
      ++calls_[i];
      if (bytes[i] == 0) return false;
      auto* const first = static_cast<std::byte*>(block_.address());
      runtime().device().copy(first + block_bytes, first, bytes[i],
                              copy_direction::device_to_device, stream().native());
      return true;
    });
  }

  block_ref block_;
  std::vector<int> calls_;
  std::size_t checks_ = 0;
  std::size_t busy_after_ = static_cast<std::size_t>(-1);
};

TEST_P(algorithm_trial, finds_the_fastest) {
  EXPECT_EQ(fastest({block_bytes, block_bytes, 16, block_bytes}), 2U);
  EXPECT_EQ(fastest({16, block_bytes}), 0U);
}

TEST_P(algorithm_trial, takes_no_algorithm_that_the_library_refuses) {
  EXPECT_EQ(fastest({block_bytes, 0, 16}), 2U);
  EXPECT_EQ(fastest({block_bytes, 0}), 0U);
}

TEST_P(algorithm_trial, measures_nothing_without_a_choice) {
  EXPECT_EQ(fastest({block_bytes}), 0U);
  EXPECT_EQ(calls_, std::vector<int>{0});
}

TEST_P(algorithm_trial, ends_when_there_is_other_work) {
  busy_after_ = 0;
  EXPECT_FALSE(fastest({block_bytes, 16}));
  EXPECT_LE(calls_[1], 1);
  checks_ = 0;
  busy_after_ = 3;
  EXPECT_FALSE(fastest({block_bytes, 16}));
  EXPECT_GT(checks_, 4U);  // it has waited
}

TEST_P(algorithm_trial, measures_with_finite_numbers) {
  const current_device_scope current(runtime().device());
  constexpr std::size_t count = 5001;
  auto target = runtime().allocate<float>(count + 1, stream(), "noise");
  cuda::fill_with_noise(target.data(), count * sizeof(float), element_type::f32, stream());
  stream().synchronize();
  const auto numbers = download(target, stream());
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_GE(std::abs(numbers[i]), 0.5F);
    ASSERT_LT(std::abs(numbers[i]), 1.0F);
    sum += static_cast<double>(numbers[i]);
  }
  EXPECT_LT(std::abs(sum), 500.0);
}

/// Requests for large products to a service of a policy.
template <algorithm_policy Policy>
class large_products : public executor_test {
 protected:
  device_service_options options_of_service() override { return {.algorithms = Policy}; }

  void expect_right_products() {
    EXPECT_EQ(service()->algorithms(), Policy);
    constexpr std::int64_t size = 1300;
    const std::vector<f16> ones(size * size, f16(1.0F));
    const tensor a = tensor(upload(runtime(), stream(), ones)).reshape({size, size});
    stream().synchronize();
    for (int round = 0; round < 2; ++round) {
      const auto c = run(test_executor(), gemm{.a = a, .b = a});
      EXPECT_EQ(test_executor().status().plans.made, 1U);
      for (const auto each : download(c.template as<f16>(), stream())) {
        ASSERT_EQ(static_cast<float>(each), static_cast<float>(size));
      }
    }
  }
};

class products_with_trials : public large_products<algorithm_policy::fastest> {};
class products_without_trials : public large_products<algorithm_policy::proposed> {};

TEST_P(products_with_trials, are_right) {
  expect_right_products();
}
TEST_P(products_without_trials, are_right) {
  expect_right_products();
}

TEST(algorithm_policy_option, is_a_policy) {
  EXPECT_TRUE(throws(errc::invalid_argument, "algorithms: is no algorithm_policy", [] {
    (void)device_service("host", {.algorithms = static_cast<algorithm_policy>(7)});
  }));
}

INSTANTIATE_TEST_SUITE_P(devices, algorithm_trial, ::testing::Values("cuda"), parameter_name);
INSTANTIATE_TEST_SUITE_P(devices, products_with_trials, ::testing::Values("cuda"), parameter_name);
INSTANTIATE_TEST_SUITE_P(devices, products_without_trials, ::testing::Values("cuda"),
                         parameter_name);

}  // namespace
}  // namespace sluice::test
