// SPDX-License-Identifier: Apache-2.0
// Rows whose sums, or whose differences from their first elements, are beyond the range of f32.
#include "tests/operations/elementwise/elements.hpp"

#include <sluice/operations/normalization.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::test {
namespace {

class layer_norm_range : public elementwise_test {
 protected:
  [[nodiscard]] bool on_host() { return runtime().device().id().kind == device_kind::host; }
  void expect_layer_norm(const std::vector<float>& values, double epsilon) {
    const auto count = std::ssize(values);
    auto x = make_contiguous(element_type::f32, {count});
    x.set(values);
    long double mean = 0;
    for (const float value : values) mean += value;
    mean /= static_cast<long double>(count);
    long double variance = 0;
    for (const float value : values) variance += (value - mean) * (value - mean);
    variance /= static_cast<long double>(count);
    const auto deviation = std::sqrt(variance + static_cast<long double>(epsilon));
    expect_each(run(test_executor(), layer_norm{.x = x.view(), .epsilon = epsilon}),
                [&](const extents& i, const number& y) {
                  const auto wanted = (x[i].real() - mean) / deviation;
                  return std::abs(y.real() - wanted) <= 1e-5L * (1 + std::abs(wanted));
                });
  }
};

TEST_P(layer_norm_range, first_elements_far_from_the_others) {
  if (!on_host()) GTEST_SKIP() << "a GPU takes the mean of other elements first";
  for (const float first : {1e15F, 1e18F, 1.3e18F}) {
    SCOPED_TRACE(first);
    std::vector<float> values(100'000, 0.0F);
    for (std::size_t i = 0; i < 64; ++i) values[i] = first;
    expect_layer_norm(values, 0);
  }
}

TEST_P(layer_norm_range, means_of_large_numbers) {
  if (!on_host()) GTEST_SKIP() << "a GPU adds such numbers in f32";
  for (const std::size_t count : {35, 64, 128, 1000}) {
    SCOPED_TRACE(count);
    expect_layer_norm(std::vector<float>(count, 1e37F), 1);
  }
}

// The squares of these differences have no sum in f32.
TEST_P(layer_norm_range, differences_of_large_numbers) {
  if (!on_host()) GTEST_SKIP() << "a GPU adds the squares in f32";
  for (const std::size_t count : {16, 64, 128, 256, 1000}) {
    for (const float largest : {1.2e18F, 5e18F, 9e18F}) {
      SCOPED_TRACE(largest);
      std::vector<float> values(count);
      for (std::size_t i = 0; i < count; ++i) values[i] = i % 2 == 0 ? largest : -largest;
      expect_layer_norm(values, 1e-5);
      auto x = make_contiguous(element_type::f32, {static_cast<std::int64_t>(count)});
      x.set(values);
      expect_each(run(test_executor(), rms_norm{.x = x.view()}),
                  [](const extents& i, const number& y) {
                    return std::abs(y.real() - (i[0] % 2 == 0 ? 1 : -1)) <= 1e-5L;
                  });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(devices, layer_norm_range, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
