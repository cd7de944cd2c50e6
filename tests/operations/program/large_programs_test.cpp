// SPDX-License-Identifier: Apache-2.0
// Programs of many steps, inputs and outputs.
#include "operations/program/scratch_layout.hpp"
#include "tests/operations/program/programs.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class large_programs : public programs {
 protected:
  /// A program with `count` outputs: output i is x + i.
  static program sums(std::int64_t count) {
    program_builder p;
    const auto x = p.input("x");
    std::vector<program_value> outputs;
    for (std::int64_t i = 0; i < count; ++i) {
      outputs.push_back(p.add("sum", affine{.x = x, .offset = i}));
    }
    return std::move(p).build(outputs);
  }
  /// A program of `count` products, each of which updates a sum of its own.
  static program updates(std::int64_t count) {
    program_builder p;
    const auto x = p.input("x");
    program_value last = x;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto sum = p.add("sum", affine{.x = x});
      last = p.add("product", gemm{.a = x, .b = x, .c = sum, .beta = 1});
    }
    return std::move(p).build({last});
  }
  static std::vector<operand> columns_of(const tensor& matrix) {
    std::vector<operand> all;
    for (std::int64_t i = 0; i < matrix.shape()[1]; ++i) {
      all.emplace_back(matrix.slice(1, i, i + 1));
    }
    return all;
  }
  /// Runs a program that writes `count` given outputs, and one that updates as many values.
  void run_large(std::int64_t count) {
    const auto x = numbers({2, 1});
    const auto y = numbers({2, count});
    (void)results_of({.what = sums(count), .inputs = {x}, .outputs = columns_of(y)});
    const auto found = values(y);
    const auto of_x = values(x);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto column = i % static_cast<std::size_t>(count);
      ASSERT_EQ(found[i], of_x[i / static_cast<std::size_t>(count)] + static_cast<float>(column));
    }
    const auto updated = results_of({.what = updates(count), .inputs = {small(3)}})[0];
    EXPECT_EQ(values(updated), (std::vector<float>{12}));
  }
  static constexpr std::int64_t most = 2000;
};

TEST_P(large_programs, write_given_outputs_that_interleave) {
  run_large(100);
}

TEST_P(large_programs, take_many_steps) {
  run_large(most);
}

TEST_P(large_programs, refuse_one_of_many_outputs_that_shares_memory) {
  const auto x = numbers({2, 1});
  const auto y = numbers({2, 100});
  const auto program = sums(100);
  auto outputs = columns_of(y);
  outputs[70] = operand(y.slice(1, 30, 31));
  EXPECT_TRUE(throws(errc::invalid_argument, "outputs[70]: shares memory with outputs[30]", [&] {
    (void)results_of({.what = program, .inputs = {x}, .outputs = outputs});
  }));
  // An output may be an input, or overlap one, which is read before.
  const auto first = values(y.slice(1, 5, 6));
  outputs = columns_of(y);
  (void)results_of({.what = program, .inputs = {y.slice(1, 5, 6)}, .outputs = outputs});
  const auto found = values(y);
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i], first[i / 100] + static_cast<float>(i % 100)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(devices, large_programs, every_device(), parameter_name);

TEST(scratch_layout, of_many_buffers_is_compact_and_without_overlaps) {
  auto generator = make_generator();
  const auto draw = [&](std::size_t first, std::size_t last) {
    return std::uniform_int_distribution<std::size_t>(first, last)(generator);
  };
  for (const std::size_t count : {1U, 100U, 512U, 513U, 3000U}) {
    std::vector<operations::scratch_buffer> buffers;
    for (std::size_t i = 0; i < count; ++i) {
      const auto first = draw(0, count);
      buffers.push_back({.bytes = draw(0, 5000), .first = first, .last = first + draw(0, 20)});
    }
    const auto total = operations::lay_out(buffers);
    std::size_t most = 0;
    std::multimap<std::size_t, const operations::scratch_buffer*> by_first;
    for (const auto& b : buffers) by_first.emplace(b.first, &b);
    for (const auto& b : buffers) {
      ASSERT_EQ(b.offset % 256, 0U);
      ASSERT_LE(b.offset + b.bytes, total);
      std::size_t sum = 0;  // of what is needed when this one begins to be
      for (auto entry = by_first.lower_bound(b.first - std::min<std::size_t>(b.first, 20));
           entry != by_first.upper_bound(b.first); ++entry) {
        const auto& other = *entry->second;
        if (other.last < b.first) continue;
        sum += (other.bytes + 255) / 256 * 256;
        if (&other == &b || other.bytes == 0 || b.bytes == 0) continue;
        ASSERT_TRUE(other.offset + other.bytes <= b.offset || b.offset + b.bytes <= other.offset);
      }
      most = std::max(most, sum);
    }
    EXPECT_LE(total, 2 * most) << count;
  }
}

}  // namespace
}  // namespace sluice::test
