// SPDX-License-Identifier: Apache-2.0
// The rows of resized images on the host device, with each kind of vectors that the processor has.
#include "operations/elementwise/resize_rows.hpp"

#include "operations/elementwise/resize_host.hpp"
#include "tests/operations/every_vector_target.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace sluice::test {
namespace {

template <class T>
class resize_rows : public ::testing::Test {
 protected:
  std::int64_t between(std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution(first, last)(random_);
  }
  /// Elements, sometimes NaN if they can be.
  std::vector<T> elements(std::int64_t count) {
    std::vector<T> all(static_cast<std::size_t>(count));
    for (auto& value : all) {
      value = static_cast<T>(between(0, 255));
      if constexpr (std::is_floating_point_v<T>) {
        if (between(0, 9) == 0) value = std::numeric_limits<T>::quiet_NaN();
      }
    }
    return all;
  }

 private:
  std::mt19937_64 random_ = make_generator();
};

/// a and b by the weight of b, in double. A neighbour of weight 0 has no influence.
double mixed(double a, double b, double weight) {
  return weight == 0 ? a : a * (1 - weight) + b * weight;
}

using pixel_types = ::testing::Types<std::uint8_t, float>;
TYPED_TEST_SUITE(resize_rows, pixel_types);

TYPED_TEST(resize_rows, lie_between_two_rows) {
  using host::resize_columns;
  for (int round = 0; round < 300; ++round) {
    const auto channels = this->between(1, 6);
    const auto extent = this->between(1, 40);
    // Magnified and reduced; by whole numbers, many weights are 0.
    const auto width =
        this->between(0, 3) == 0 ? (extent % 2 == 0 ? extent / 2 : extent) : this->between(1, 70);
    const auto gap = this->between(0, 1) == 0 ? 0 : this->between(1, 3);
    const auto column_stride = channels + gap;
    const auto stride = this->between(0, 1) == 0 ? channels : channels + this->between(1, 3);
    const operations::resize_axis axis{.extent = extent,
                                       .stride = column_stride,
                                       .result = width,
                                       .numerator = static_cast<double>(extent),
                                       .denominator = static_cast<double>(width)};
    resize_columns columns;
    columns.count = width;
    columns.last = (extent - 1) * column_stride;
    for (std::int64_t i = 0; i < width; ++i) {
      const auto beside = host::neighbours_of(axis, i);
      const auto column = static_cast<std::size_t>(i);
      columns.first[column] = beside.first;
      columns.second[column] = beside.second;
      columns.weight[column] = beside.weight;
    }
    // Without an element behind the last one.
    const auto size = (extent - 1) * column_stride + channels;
    const auto upper = this->elements(size);
    const auto lower = this->elements(size);
    const float weight =
        this->between(0, 2) == 0 ? 0.0F : static_cast<float>(this->between(1, 99)) / 100;
    for_each_vector_target([&] {
      const auto mark = static_cast<TypeParam>(77);
      std::vector<TypeParam> y(static_cast<std::size_t>(width * stride + 4), mark);
      host::resize_row<TypeParam>({upper.data(), lower.data(), weight, channels, column_stride},
                                  columns, y.data(), stride);
      for (std::int64_t i = 0; i < std::ssize(y); ++i) {
        const auto column = static_cast<std::size_t>(i / stride);
        const auto channel = i % stride;
        const auto found = y[static_cast<std::size_t>(i)];
        if (i >= width * stride || channel >= channels) {
          ASSERT_EQ(found, mark) << "beside a column: " << i;
          continue;
        }
        const auto row = [&](const std::vector<TypeParam>& x) {
          return mixed(x[static_cast<std::size_t>(columns.first[column] + channel)],
                       x[static_cast<std::size_t>(columns.second[column] + channel)],
                       columns.weight[column]);
        };
        const double wanted = mixed(row(upper), row(lower), weight);
        if (std::isnan(wanted)) {
          ASSERT_TRUE(std::isnan(static_cast<double>(found))) << "column " << column;
        } else {
          // u8 is rounded to the nearest number.
          const double bound = std::is_floating_point_v<TypeParam> ? 1e-4 : 0.5 + 1e-4;
          ASSERT_NEAR(static_cast<double>(found), wanted, bound)
              << "column " << column << " of " << width << " from " << extent << ", channel "
              << channel << " of " << channels;
        }
      }
    });
  }
}

}  // namespace
}  // namespace sluice::test
