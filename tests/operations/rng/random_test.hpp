// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/executing.hpp"

#include <sluice/operations/rng.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace sluice::test {

enum class random_distribution { bits, uniform, normal };

/// A range of random numbers.
struct random_description {
  random_distribution distribution = random_distribution::uniform;
  element_type type = element_type::f32;
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  std::size_t count = 0;
  double mean = 0;
  double stddev = 1;
};

class random_test : public executor_test {
 protected:
  /// Makes the numbers `d` in `y`.
  tensor draw(executor& executor, const random_description& d, const tensor& y) {
    switch (d.distribution) {
      case random_distribution::bits:
        return run(executor, random_bits{.seed = d.seed, .offset = d.offset, .y = y});
      case random_distribution::uniform:
        return run(executor, random_uniform{.seed = d.seed, .offset = d.offset, .y = y});
      case random_distribution::normal:
        return run(
            executor,
            random_normal{
                .seed = d.seed, .offset = d.offset, .mean = d.mean, .stddev = d.stddev, .y = y});
    }
    return {};
  }
  /// The numbers `d`, made `room_before` elements into a block. Expects that the elements before
  /// and behind them stay as they were.
  template <class T>
  std::vector<T> generated(executor& executor, stream_ref stream, const random_description& d,
                           std::size_t room_before) {
    const std::size_t room_behind = 5;
    T mark;
    std::memset(&mark, 0x5a, sizeof mark);
    const auto block = upload(executor.lane().runtime(), stream,
                              std::vector<T>(room_before + d.count + room_behind, mark));
    (void)draw(executor, d, block.subspan(room_before, d.count));
    std::vector<T> values = download(block, stream);
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(room_before);
    const auto last = first + static_cast<std::ptrdiff_t>(d.count);
    EXPECT_EQ(std::count(values.begin(), first, mark), static_cast<std::ptrdiff_t>(room_before));
    EXPECT_EQ(std::count(last, values.end(), mark), static_cast<std::ptrdiff_t>(room_behind));
    return {first, last};
  }
  template <class T>
  std::vector<T> make(const random_description& d, std::size_t room_before = 0) {
    return generated<T>(test_executor(), stream(), d, room_before);
  }
};

}  // namespace sluice::test
