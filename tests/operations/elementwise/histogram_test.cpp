// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/elementwise/elements.hpp"

#include <sluice/operations/histogram.hpp>
#include <sluice/operations/program.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class histograms : public elementwise_test {
 protected:
  void expect_counts(const elements& x, std::int64_t bins, double low, double high) {
    SCOPED_TRACE(std::string(to_string(x.type())) + ' ' + to_string(x.view().shape()) + " in " +
                 std::to_string(bins) + " bins from " + std::to_string(low) + " to " +
                 std::to_string(high));
    std::vector<std::int64_t> counts(static_cast<std::size_t>(bins));
    for_each_index(x.view().shape(), [&](const extents& index) {
      const auto value = static_cast<double>(x[index].real());
      if (std::isnan(value) || value < low || value > high) return;
      const auto bin = std::floor((value - low) / (high - low) * static_cast<double>(bins));
      ++counts[std::min(static_cast<std::size_t>(bin), counts.size() - 1)];
    });
    expect_right(histogram{.x = x.view(), .bins = bins, .low = low, .high = high},
                 element_type::i64, {bins}, [&](const extents& i) {
                   return number(static_cast<long double>(counts[static_cast<std::size_t>(i[0])]));
                 });
  }
};

TEST_P(histograms, of_all_types_shapes_and_strides) {
  for (const auto type : computed_element_types) {
    if (type == element_type::boolean || is_complex_type(type)) continue;
    for (const auto how : {drawn::few, drawn::wide, drawn::bits}) {
      const auto low = static_cast<double>(between(-40, 10)) / 2;
      expect_counts(make(type, random_shape(), how), between(1, 40), low,
                    low + static_cast<double>(between(1, 100)) / 2);
    }
  }
}

// A block of a GPU has memory for 8192 bins, and a thread of the host for 65536.
TEST_P(histograms, of_many_elements_and_bins) {
  for (const std::int64_t bins : {1, 256, 8192, 8193, 70'000}) {
    expect_counts(make_contiguous(element_type::f32, {3, 40'009}), bins, -0.75, 1);
    expect_counts(make(element_type::f16, {70, 9, 50}), bins, -1, 1);
  }
}

TEST_P(histograms, of_edges) {
  auto x = make_contiguous(element_type::f32, {7});
  x.set(std::vector<float>{0, 1, 4, std::nextafter(4.0F, 5.0F), std::nextafter(0.0F, -1.0F),
                           std::nanf(""), std::numeric_limits<float>::infinity()});
  const std::vector<int> wanted{1, 1, 0, 1};
  expect_elements(run(test_executor(), histogram{.x = x.view(), .bins = 4, .low = 0, .high = 4}),
                  [&](const extents& i) { return number(wanted[static_cast<std::size_t>(i[0])]); });
}

TEST_P(histograms, of_integers) {
  auto x = make_contiguous(element_type::i64, {100});
  std::vector<std::int64_t> classes(100);
  for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<std::int64_t>(i) % 9;
  x.set(classes);
  const histogram request{.x = x.view(), .bins = 10, .low = -0.5, .high = 9.5};
  expect_elements(run(test_executor(), request), [&](const extents& i) {
    return number(static_cast<int>(std::count(classes.begin(), classes.end(), i[0])));
  });
}

TEST_P(histograms, of_repeated_elements_and_of_none) {
  const auto x = make(element_type::u8, {1, 3});
  const histogram repeated{
      .x = x.view().broadcast_to({1000, 3}), .bins = 256, .low = -0.5, .high = 255.5};
  expect_elements(run(test_executor(), repeated), [&](const extents& i) {
    int count = 0;
    for (std::int64_t k = 0; k < 3; ++k) {
      if (static_cast<std::int64_t>(x[{0, k}].real()) == i[0]) count += 1000;
    }
    return number(count);
  });
  expect_counts(make(element_type::f32, {0, 3}), 5, 0, 1);
}

TEST_P(histograms, as_steps_of_a_program) {
  program_builder p;
  const auto x_input = p.input("x");
  const auto counts = p.add("counts", histogram{.x = x_input, .bins = 3, .low = 0, .high = 3});
  const auto x = make_contiguous(element_type::f32, {50}, drawn::positive);
  const auto results = run(test_executor(), sluice::run{std::move(p).build({counts}), {x.view()}});
  expect_elements(results[0], [&](const extents& i) { return number(i[0] == 0 ? 50 : 0); });
}

INSTANTIATE_TEST_SUITE_P(devices, histograms, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
