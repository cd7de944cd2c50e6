// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/elementwise/indexing.hpp"

#include <sluice/operations/cumulative.hpp>
#include <sluice/operations/program.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// A number as an integer of 64 bits that wraps around.
std::uint64_t wrapped(const number& value) {
  const auto real = value.real();
  return real < 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(real))
                  : static_cast<std::uint64_t>(real);
}
/// An integer of 64 bits as one of a type.
number of_type(element_type type, std::uint64_t value) {
  return with_integer_type(type, [&](auto integer) {
    return number(static_cast<long double>(static_cast<decltype(integer)>(value)));
  });
}

class cumulatives : public indexing_test {
 protected:
  /// Compares the results with sums and products that are computed one after the other.
  void expect_right_rows(const cumulative& op, const elements& x, std::size_t axis) {
    const auto type = x.type();
    const auto shape = x.view().shape();
    SCOPED_TRACE(std::string(to_string(type)) + ' ' + to_string(shape) + " along " +
                 std::to_string(axis) + (op.kind == cumulative_kind::sum ? " sum" : " product") +
                 (op.exclusive ? " exclusive" : "") + (op.reverse ? " reverse" : ""));
    const auto y = run(test_executor(), op);
    EXPECT_EQ(y.shape(), shape);
    EXPECT_EQ(y.type(), type);
    if (y.empty()) return;
    const bool is_product = op.kind == cumulative_kind::product;
    const auto length = shape[axis];
    // The state of each row, in the order in which its elements come.
    extents row_shape = shape;
    row_shape[axis] = 1;
    const auto bytes = contents_of(y);
    for_each_index(row_shape, [&](extents index) {
      if (HasFailure()) return;
      number total = is_product ? 1 : 0;
      std::uint64_t integer = is_product ? 1 : 0;
      long double magnitude = 0;
      for (std::int64_t i = 0; i < length; ++i) {
        index[axis] = op.reverse ? length - 1 - i : i;
        const auto element = x[index];
        const auto before = total;
        const auto integer_before = integer;
        total = is_product ? total * element : total + element;
        integer = is_product ? integer * wrapped(element) : integer + wrapped(element);
        const auto expected = op.exclusive ? before : total;
        magnitude = is_product ? std::abs(expected) : magnitude + std::abs(element);
        auto offset = static_cast<std::int64_t>(y.offset());
        for (std::size_t d = 0; d < index.size(); ++d) {
          offset += index[d] * y.strides()[d] * static_cast<std::int64_t>(size_of(type));
        }
        const auto computed = number_at(type, &bytes[static_cast<std::size_t>(offset)]);
        if (type < element_type::f16) {
          ASSERT_TRUE(same(computed, of_type(type, op.exclusive ? integer_before : integer)))
              << to_string(index);
          continue;
        }
        const auto unit = type == element_type::f16                                ? 0x1p-11L
                          : type == element_type::bf16                             ? 0x1p-8L
                          : type == element_type::f32 || type == element_type::c64 ? 0x1p-23L
                                                                                   : 0x1p-50L;
        ASSERT_LE(std::abs(computed - expected),
                  unit * std::abs(expected) +
                      0x1p-50L * magnitude * static_cast<long double>(i + 1) + 0x1p-24L)
            << to_string(index) << ": " << computed.real() << " is not " << expected.real();
      }
    });
  }
  void expect_cumulative(element_type type, const extents& shape, std::size_t axis,
                         cumulative_kind kind) {
    // Products of numbers beside 1 neither vanish nor overflow.
    const auto x = make(type, shape, kind == cumulative_kind::sum ? drawn::few : drawn::near_one);
    const auto signed_axis = static_cast<std::int64_t>(axis) - (coin() ? 0 : rank_of(shape));
    const auto y = make(type, shape);
    const bool has_output = coin();
    cumulative op{
        .x = x.view(), .axis = signed_axis, .kind = kind, .exclusive = coin(), .reverse = coin()};
    if (has_output) op.y = y.view();
    expect_right_rows(op, x, axis);
    if (has_output) expect_gaps_untouched(y);
    op.y = x.view();
    expect_right_rows(op, x, axis);
  }
};

constexpr auto both_kinds = {cumulative_kind::sum, cumulative_kind::product};

TEST_P(cumulatives, of_all_types_shapes_and_strides) {
  for (const auto type : computed_element_types) {
    if (type == element_type::boolean) continue;
    for (const auto kind : both_kinds) {
      for (int round = 0; round < 10; ++round) {
        const auto shape = random_shape(1, 5);
        expect_cumulative(type, shape, static_cast<std::size_t>(between(0, rank_of(shape) - 1)),
                          kind);
      }
    }
  }
}

// Rows for a thread, a warp and a block, in one part and in several; and columns.
TEST_P(cumulatives, of_rows_and_columns_of_every_length) {
  for (const auto type : {element_type::u8, element_type::f16, element_type::f32, element_type::i64,
                          element_type::c128}) {
    for (const auto& shape : {extents{3, 1}, extents{100, 9}, extents{700, 15}, extents{33, 100},
                              extents{70, 16}, extents{37, 1000}, extents{9, 1024},
                              extents{5, 2049}, extents{3, 40'001}, extents{1, 300'007}}) {
      expect_cumulative(type, shape, 1, cumulative_kind::sum);
      expect_cumulative(type, {shape[1], shape[0]}, 0, cumulative_kind::sum);
    }
  }
}

TEST_P(cumulatives, of_rows_without_gaps) {
  for (const auto type : {element_type::u16, element_type::bf16, element_type::f64}) {
    const auto x = make_contiguous(type, {2, 65'536}, drawn::few);
    for (const bool exclusive : {false, true}) {
      for (const bool reverse : {false, true}) {
        expect_right_rows({.x = x.view(), .axis = 1, .exclusive = exclusive, .reverse = reverse}, x,
                          1);
      }
    }
  }
}

TEST_P(cumulatives, of_special_values) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinite = std::numeric_limits<float>::infinity();
  auto x = make_contiguous(element_type::f32, {2000});
  std::vector<float> values(x.memory().size() / sizeof(float), 0.0F);
  values[100] = infinite;
  values[1000] = -infinite;
  values[1500] = nan;
  x.set(values);
  expect_elements(run(test_executor(), cumulative{.x = x.view()}), [&](const extents& i) {
    return i[0] < 100 ? number(0) : i[0] < 1000 ? number(infinite) : number(nan);
  });
}

TEST_P(cumulatives, keeps_what_f32_would_lose) {
  auto x = make_contiguous(element_type::f32, {4});
  x.set(std::vector<float>{0x1p30F, 1, -0x1p30F, 1});
  const std::vector<number> expected{0x1p30L, 0x1p30L, 1, 2};
  expect_elements(run(test_executor(), cumulative{.x = x.view()}),
                  [&](const extents& i) { return expected[static_cast<std::size_t>(i[0])]; });
}

TEST_P(cumulatives, gives_the_same_bits_each_time) {
  const auto x = make_contiguous(element_type::f64, {123'457});
  const auto first = contents_of(run(test_executor(), cumulative{.x = x.view()}));
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(contents_of(run(test_executor(), cumulative{.x = x.view()})) == first);
  }
}

TEST_P(cumulatives, as_a_step_of_a_program) {
  program_builder p;
  const auto x_input = p.input("x");
  const auto sums = p.add("sums", cumulative{.x = x_input, .axis = 1});
  const auto x = make_contiguous(element_type::i32, {3, 70'000}, drawn::few);
  const auto results = run(test_executor(), sluice::run{std::move(p).build({sums}), {x.view()}});
  std::int64_t total = 0;
  expect_elements(results[0], [&](const extents& i) {
    if (i[1] == 0) total = 0;
    total += static_cast<std::int64_t>(x[i].real());
    return number(static_cast<long double>(total));
  });
}

INSTANTIATE_TEST_SUITE_P(devices, cumulatives, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
