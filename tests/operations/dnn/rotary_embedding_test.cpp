// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/dnn/real_numbers.hpp"
#include "tests/operations/elementwise/elements.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/program.hpp>
#include <sluice/operations/rotary_embedding.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// Extents of X, and what is rotated.
struct rotary_shape {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t sequence = 1;
  std::int64_t size = 2;     ///< elements of a head
  std::int64_t rotated = 2;  ///< of them
};

class rotary_operation : public elementwise_test {
 protected:
  /// Compares a rotation with its definition, with random options.
  void expect_rotated(element_type type, const rotary_shape& s, bool has_gaps) {
    const bool has_four = coin();
    const bool has_positions = coin();
    const auto draw = [&](element_type t, const extents& shape) {
      return has_gaps ? make(t, shape) : make_contiguous(t, shape);
    };
    const auto x = draw(type, has_four ? extents{s.batch, s.heads, s.sequence, s.size}
                                       : extents{s.batch, s.sequence, s.heads * s.size});
    const auto half = s.rotated / 2;
    constexpr std::int64_t cached = 7;
    const extents angle_shape =
        has_positions ? extents{cached, half} : extents{s.batch, s.sequence, half};
    const auto cos = draw(type, has_gaps && !has_positions ? part_of(angle_shape) : angle_shape);
    const auto sin = draw(type, has_gaps && !has_positions ? part_of(angle_shape) : angle_shape);
    auto positions = draw(element_type::i64,
                          has_gaps ? part_of({s.batch, s.sequence}) : extents{s.batch, s.sequence});
    std::vector<std::int64_t> drawn_positions(100);
    for (auto& p : drawn_positions)
      p = between(0, 19) == 0 ? (coin() ? -1 : cached) : between(0, 6);
    positions.set(drawn_positions);

    rotary_embedding op{.x = x.view(), .cos = cos.view(), .sin = sin.view()};
    if (has_positions) op.positions = positions.view();
    if (!has_four || coin()) op.heads = s.heads;
    if (s.rotated != s.size || coin()) op.rotated = s.rotated;
    op.interleaved = coin();
    const auto how = between(0, 2);
    const auto y = make(type, x.view().shape());
    if (how == 1) op.y = y.view();
    if (how == 2) op.y = x.view();
    SCOPED_TRACE(std::string(to_string(type)) + " " + to_string(x.view().shape()) + " rotated " +
                 std::to_string(s.rotated) + (op.interleaved ? " interleaved" : "") +
                 (has_positions ? " positions" : "") + " output " + std::to_string(how));
    const auto result = run(test_executor(), op);
    ASSERT_EQ(result.shape(), x.view().shape());
    expect_each(result, [&](const extents& index, const number& computed) {
      const auto b = index[0];
      const auto t = has_four ? index[2] : index[1];
      const auto last = index.size() - 1;
      const auto begin = has_four ? 0 : index[last] / s.size * s.size;
      const auto i = index[last] - begin;
      if (i >= s.rotated) return equal(computed.real(), x[index].real());
      const auto pair = op.interleaved ? i / 2 : i % half;
      const bool is_first = op.interleaved ? i % 2 == 0 : i < half;
      const auto element = [&](std::int64_t k) {
        auto position = index;
        position[last] = begin + k;
        return x[position].real();
      };
      const auto first = element(op.interleaved ? 2 * pair : pair);
      const auto second = element(op.interleaved ? 2 * pair + 1 : pair + half);
      extents angle{b, t, pair};
      if (has_positions) {
        const auto row = static_cast<std::int64_t>(positions[{b, t}].real());
        if (row < 0 || row >= cached) {
          return equal(computed.real(), std::numeric_limits<long double>::quiet_NaN());
        }
        angle = {row, pair};
      }
      const auto c = cos[angle].real();
      const auto n = sin[angle].real();
      const auto wanted = is_first ? first * c - second * n : first * n + second * c;
      const auto bound = bound_of(type, wanted, std::abs(first) + std::abs(second), 2);
      return std::abs(computed.real() - wanted) <= bound
                 ? ::testing::AssertionSuccess()
                 : ::testing::AssertionFailure() << computed.real() << " is not " << wanted;
    });
    if (how == 1) expect_gaps_untouched(y);
  }
  static ::testing::AssertionResult equal(long double computed, long double wanted) {
    if (same(computed, wanted)) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << computed << " is not " << wanted;
  }
};

TEST_P(rotary_operation, of_all_types_options_and_strides) {
  for (const auto type : real_types) {
    for (int round = 0; round < 40 && !HasFailure(); ++round) {
      rotary_shape s{between(1, 3), between(1, 4), between(1, 9), between(1, 20)};
      s.rotated = between(1, 3) == 1 ? s.size / 2 * 2 : 2 * between(0, s.size / 2);
      if (s.rotated == 0) continue;
      expect_rotated(type, s, true);
    }
  }
}

TEST_P(rotary_operation, of_whole_vectors) {
  for (const auto type : real_types) {
    for (int round = 0; round < 12 && !HasFailure(); ++round) {
      const auto size = 16 * between(1, 8);
      expect_rotated(type, {2, 3, 5, size, coin() ? size : 16 * between(1, size / 16)}, false);
    }
  }
}

TEST_P(rotary_operation, in_a_program) {
  program_builder p;
  const auto x = p.input("x");
  const auto cos = p.input("cos");
  const auto sin = p.input("sin");
  const auto rotated = p.add("there", rotary_embedding{.x = x, .cos = cos, .sin = sin});
  const auto program = std::move(p).build({rotated});
  const auto queries = make(element_type::f32, {2, 3, 4, 2});
  auto zeros = make_contiguous(element_type::f32, {1});
  zeros.set(std::vector<float>{0});
  auto ones = make_contiguous(element_type::f32, {1});
  ones.set(std::vector<float>{1});
  const auto result =
      run(test_executor(), sluice::run{program, {queries.view(), zeros.view(), ones.view()}});
  // A quarter turn.
  expect_elements(result[0], [&](const extents& i) {
    const auto other = queries[{i[0], i[1], i[2], 1 - i[3]}].real();
    return number(i[3] == 0 ? 0 * queries[i].real() - other : other + 0 * queries[i].real());
  });
}

TEST_P(rotary_operation, of_no_elements) {
  constexpr std::int64_t many = std::int64_t{1} << 40U;
  const auto x = make_contiguous(element_type::f32, {0}).view();
  const auto angles = make(element_type::f32, {4}).view();
  const auto view = tensor(x.block(), element_type::f32, {many, 0, many, 8});
  EXPECT_EQ(run(test_executor(), rotary_embedding{.x = view, .cos = angles, .sin = angles}).shape(),
            view.shape());
}

TEST_P(rotary_operation, refusals) {
  const auto refuse = [&](const std::string& text, const rotary_embedding& op) {
    EXPECT_TRUE(throws(errc::invalid_argument, text, [&] { (void)run(test_executor(), op); }))
        << text;
  };
  const auto f32 = element_type::f32;
  const auto x = make(f32, {2, 3, 5, 8}).view();
  const auto flat = make(f32, {2, 5, 24}).view();
  const auto four = make(f32, {4}).view();
  const auto cache = make(f32, {7, 4}).view();
  const auto positions = make(element_type::i64, {2, 5}).view();
  refuse("x: is not given", {.cos = four, .sin = four});
  refuse("cos: is not given", {.x = x, .sin = four});
  refuse("sin: is not given", {.x = x, .cos = four});
  refuse("x: is of type i32", {.x = make(element_type::i32, {2, 3, 5, 8}).view()});
  refuse("x: has the shape [4]", {.x = four, .cos = four, .sin = four});
  refuse("heads: is not given", {.x = flat, .cos = four, .sin = four});
  refuse("heads: is 5", {.x = flat, .cos = four, .sin = four, .heads = 5});
  refuse("heads: is 2", {.x = x, .cos = four, .sin = four, .heads = 2});
  refuse("rotated: is 3", {.x = x, .cos = four, .sin = four, .rotated = 3});
  refuse("rotated: is 10", {.x = x, .cos = four, .sin = four, .rotated = 10});
  refuse("rotated: is -2", {.x = x, .cos = four, .sin = four, .rotated = -2});
  refuse("x: has heads of 3 elements",
         {.x = make(f32, {1, 1, 1, 3}).view(), .cos = four, .sin = four});
  refuse("cos: is of type f16", {.x = x, .cos = make(element_type::f16, {4}).view(), .sin = four});
  refuse("sin: has the shape [3]", {.x = x, .cos = four, .sin = make(f32, {3}).view()});
  refuse("cos: has the shape [4]", {.x = x, .cos = four, .sin = four, .positions = positions});
  refuse("sin: has the shape [6, 4]",
         {.x = x, .cos = cache, .sin = make(f32, {6, 4}).view(), .positions = positions});
  refuse("positions: is of type i32",
         {.x = x, .cos = cache, .sin = cache, .positions = make(element_type::i32, {2, 5}).view()});
  refuse("positions: has the shape [3]",
         {.x = x, .cos = cache, .sin = cache, .positions = make(element_type::i64, {3}).view()});
  refuse("y: has the shape [4]", {.x = x, .cos = four, .sin = four, .y = four});
  const auto y = make(f32, x.shape()).view();
  const auto part = y.select(0, 0).select(0, 0).select(0, 0).slice(0, 0, 4);
  refuse("y: ", {.x = x, .cos = part, .sin = four, .y = y});
}

INSTANTIATE_TEST_SUITE_P(devices, rotary_operation, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
