// SPDX-License-Identifier: Apache-2.0
// Functions of f32 whose values stay in registers, with each kind of vectors that the processor
// has, beside the loops that compute them one by one.
#include "operations/elementwise/f32_chain.hpp"

#include "operations/elementwise/f32_arithmetic.hpp"
#include "operations/elementwise/f32_loops.hpp"
#include "tests/operations/every_vector_target.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>
#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace sluice::test {
namespace {

using namespace operations;
using host::f32_step;
using host::is_arithmetic;
using host::step_operands;

class f32_chain : public ::testing::Test {
 protected:
  std::int64_t between(std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution(first, last)(random_);
  }
  /// Counts around whole tiles, and larger ones.
  std::int64_t count() { return between(0, 3) == 0 ? between(100, 400) : between(0, 140); }
  std::vector<float> floats(std::int64_t size) {
    std::vector<float> all(static_cast<std::size_t>(size));
    for (auto& value : all) {
      const auto kind = between(0, 7);
      value = kind == 0   ? std::bit_cast<float>(static_cast<std::uint32_t>(random_()))
              : kind == 1 ? std::copysign(0.0F, static_cast<float>(between(-1, 0)))
                          : std::uniform_real_distribution<float>(-4, 4)(random_);
    }
    return all;
  }
  /// A number of a step: the usual one, or one that functions distinguish.
  float any_number(float usual) {
    constexpr std::array special{0.0F, -0.0F, NAN, INFINITY, -INFINITY};
    const auto kind = static_cast<std::size_t>(between(0, 9));
    return kind < special.size() ? special[kind] : usual;
  }
  unary_function any_unary() {
    while (true) {
      const auto f = static_cast<unary_function>(between(0, unary_function_count - 1));
      if (is_arithmetic(f)) return f;
    }
  }
  binary_function any_binary() {
    while (true) {
      const auto f = static_cast<binary_function>(between(0, binary_function_count - 1));
      if (is_arithmetic(f)) return f;
    }
  }
  /// A step with operands among `values`.
  f32_step any_step(const std::vector<std::vector<float>>& values) {
    const auto address = [&] {
      return values[static_cast<std::size_t>(between(0, std::ssize(values) - 1))].data();
    };
    f32_step step{.alpha = any_number(-1.5F), .beta = any_number(2.25F)};
    switch (between(0, 2)) {
      case 0:
        step.kind = f32_step::action::unary;
        step.unary = any_unary();
        break;
      case 1:
        step.kind = f32_step::action::binary;
        step.binary = any_binary();
        step.operands = static_cast<step_operands>(between(0, host::step_operands_count - 1));
        if (step.operands == step_operands::registers_and_memory ||
            step.operands == step_operands::memory_and_registers) {
          step.a = address();
        }
        break;
      default:
        step.kind = f32_step::action::affine;
        if (between(0, 1) == 0) step.a = address();
        if (between(0, 1) == 0) step.b = address();
    }
    return step;
  }
  /// Computes a step with the loops over memory.
  static void compute_alone(const f32_step& step, std::vector<float>& x) {
    const auto n = std::ssize(x);
    const std::vector<float> numbers(x.size(), step.alpha);
    const float* const other = step.a != nullptr ? step.a : numbers.data();
    float* const y = x.data();
    switch (step.kind) {
      case f32_step::action::load:
        std::copy_n(step.a, n, y);
        break;
      case f32_step::action::store:
        std::copy_n(y, n, step.y);
        break;
      case f32_step::action::unary:
        host::unary_f32({step.unary, step.alpha, step.beta}, y, n, y);
        break;
      case f32_step::action::binary:
        if (step.operands == step_operands::memory_and_registers ||
            step.operands == step_operands::number_and_registers) {
          host::binary_f32(step.binary, other, y, n, y);
        } else {
          const bool is_twice = step.operands == step_operands::registers_twice;
          host::binary_f32(step.binary, y, is_twice ? y : other, n, y);
        }
        break;
      case f32_step::action::affine:
        host::affine_f32({step.alpha, step.beta}, y, step.a, step.b, n, y);
        break;
    }
  }
  /// Equal bits, or two NaN.
  static bool same(float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
           (std::isnan(a) && std::isnan(b));
  }

 private:
  std::mt19937_64 random_ = make_generator();
};

TEST_F(f32_chain, gives_the_bits_of_its_functions) {
  for (int round = 0; round < 300; ++round) {
    const auto n = count();
    // Later steps may read and replace what earlier ones store.
    std::vector<std::vector<float>> values;
    for (int k = 0; k < 4; ++k) values.push_back(floats(n));
    const auto before = values;
    std::vector<f32_step> steps{{.kind = f32_step::action::load, .a = values[0].data()}};
    for (auto rest = between(0, 9); rest > 0; --rest) {
      steps.push_back(any_step(values));
      if (between(0, 3) == 0) {
        auto& target = values[static_cast<std::size_t>(between(0, 3))];
        steps.push_back({.kind = f32_step::action::store, .y = target.data()});
      }
      if (between(0, 9) == 0) {
        steps.push_back({.kind = f32_step::action::load, .a = values[3].data()});
      }
    }
    steps.push_back({.kind = f32_step::action::store, .y = values[1].data()});
    for_each_vector_target([&] {
      for (std::size_t k = 0; k < values.size(); ++k)
        values[k].assign(before[k].begin(), before[k].end());
      std::vector<float> x(static_cast<std::size_t>(n));
      for (const auto& step : steps) compute_alone(step, x);
      const auto expected = values;
      for (std::size_t k = 0; k < values.size(); ++k)
        values[k].assign(before[k].begin(), before[k].end());
      host::compute_chain(steps, n);
      for (std::size_t k = 0; k < values.size(); ++k) {
        for (std::size_t i = 0; i < values[k].size(); ++i) {
          ASSERT_TRUE(same(values[k][i], expected[k][i]))
              << std::hexfloat << values[k][i] << " instead of " << expected[k][i] << " of " << k
              << " at " << i << " of " << n;
        }
      }
    });
  }
}

// Vectors, the elements behind them, and chains.
TEST_F(f32_chain, clips_between_any_bounds) {
  constexpr std::array bounds{0.0F, -0.0F, NAN, INFINITY, -INFINITY, -1.5F, 2.25F};
  auto x = floats(67);
  std::copy(bounds.begin(), bounds.end(), x.begin());
  x[bounds.size()] = std::numeric_limits<float>::denorm_min();
  x[bounds.size() + 1] = -std::numeric_limits<float>::denorm_min();
  std::copy(bounds.begin(), bounds.end(), x.end() - std::ssize(bounds));
  for (const float low : bounds) {
    for (const float high : bounds) {
      for_each_vector_target([&] {
        std::vector<float> alone(x.size());
        host::unary_f32({unary_function::clip, low, high}, x.data(), std::ssize(x), alone.data());
        std::vector<float> chained(x.size());
        host::compute_chain(
            std::vector<f32_step>{{.kind = f32_step::action::load, .a = x.data()},
                                  {.kind = f32_step::action::unary,
                                   .unary = unary_function::clip,
                                   .alpha = low,
                                   .beta = high},
                                  {.kind = f32_step::action::store, .y = chained.data()}},
            std::ssize(x));
        for (std::size_t i = 0; i < x.size(); ++i) {
          const float expected = smaller(larger(x[i], low), high);
          ASSERT_TRUE(same(alone[i], expected)) << x[i] << ' ' << low << ' ' << high;
          ASSERT_TRUE(same(chained[i], expected)) << x[i] << ' ' << low << ' ' << high;
        }
      });
    }
  }
}

// Stores past the caches, from an address of a vector and from one between two.
TEST_F(f32_chain, stores_past_the_caches) {
  for (int round = 0; round < 40; ++round) {
    const auto n = count();
    const auto x = floats(n);
    for_each_vector_target([&] {
      const auto memory = hwy::AllocateAligned<float>(static_cast<std::size_t>(n + 2));
      for (const std::int64_t first : {0, 1}) {
        float* const y = memory.get() + first;
        y[n] = 7;
        const std::vector<f32_step> steps{
            {.kind = f32_step::action::load, .a = x.data()},
            {.kind = f32_step::action::unary, .unary = unary_function::negate},
            {.kind = f32_step::action::store, .is_streamed = true, .y = y}};
        host::compute_chain(steps, n);
        for (std::size_t i = 0; i < x.size(); ++i) ASSERT_TRUE(same(y[i], -x[i])) << i;
        EXPECT_EQ(y[n], 7);
      }
    });
  }
}

}  // namespace
}  // namespace sluice::test
