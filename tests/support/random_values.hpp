// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <random>
#include <type_traits>
#include <vector>

namespace sluice::test {

/// `count` random numbers: uniform in [-1, 1), as are both parts of complex numbers, or any value
/// of an integer type.
template <class T>
[[nodiscard]] std::vector<T> random_values(std::mt19937_64& generator, std::size_t count) {
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<T> drawn(count);
  for (T& value : drawn) {
    if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<T>(uniform(generator));
    } else if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(generator());
    } else {
      using part = typename T::value_type;
      const auto real = static_cast<part>(uniform(generator));
      value = {real, static_cast<part>(uniform(generator))};
    }
  }
  return drawn;
}

}  // namespace sluice::test
