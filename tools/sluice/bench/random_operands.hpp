// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/arrays.hpp"

#include <sluice/runtime/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace sluice::cli {

/// Makes operands of random numbers from -1 to 1.
class random_operands {
 public:
  explicit random_operands(session& current) : session_(current) {}

  /// A number from `first` to `last`.
  [[nodiscard]] std::int64_t integer(std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution(first, last)(random_);
  }
  [[nodiscard]] std::vector<float> values(std::int64_t count) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (float& number : numbers) number = uniform(random_);
    return numbers;
  }
  [[nodiscard]] tensor make(const extents& shape) {
    std::int64_t count = 1;
    for (const auto extent : shape) count *= extent;
    return tensor(upload_values(session_, values(count))).reshape(shape);
  }

 private:
  session& session_;
  std::mt19937_64 random_{std::random_device()()};
};

/// `count` results of `make`.
template <class Make>
auto several(std::size_t count, const Make& make) {
  std::vector<decltype(make())> all;
  all.reserve(count);
  for (std::size_t i = 0; i < count; ++i) all.push_back(make());
  return all;
}

}  // namespace sluice::cli
