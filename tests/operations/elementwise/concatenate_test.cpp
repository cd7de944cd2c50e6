// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/elementwise/elements.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/concatenate.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/program.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class concatenations : public elementwise_test {
 protected:
  /// Runs an operation with a list of tensors, over memory of any layout for its result or without.
  template <class Operation, class Expected>
  void expect_right(Operation operation, const std::vector<elements>& x, const extents& shape,
                    const Expected& expected) {
    for (const auto& each : x) operation.x.emplace_back(each.view());
    const auto type = x.front().type();
    if (coin()) {
      const auto y = make(type, shape);
      operation.y = y.view();
      const auto result = run(test_executor(), operation);
      EXPECT_EQ(result, y.view());
      expect_elements(result, expected);
      expect_gaps_untouched(y);
    } else {
      const auto result = run(test_executor(), operation);
      ASSERT_EQ(result.shape(), shape);
      ASSERT_EQ(result.type(), type);
      expect_elements(result, expected);
    }
  }
  void expect_concatenation(const std::vector<elements>& x, std::size_t axis, bool from_end) {
    auto shape = x.front().view().shape();
    const auto rank = static_cast<std::int64_t>(shape.size());
    for (std::size_t i = 1; i < x.size(); ++i) shape[axis] += x[i].view().shape()[axis];
    const auto dimension = static_cast<std::int64_t>(axis);
    expect_right(concatenate{.axis = from_end ? dimension - rank : dimension}, x, shape,
                 [&](const extents& index) {
                   auto source = index;
                   std::size_t piece = 0;
                   while (source[axis] >= x[piece].view().shape()[axis]) {
                     source[axis] -= x[piece++].view().shape()[axis];
                   }
                   return x[piece][source];
                 });
  }
};

TEST_P(concatenations, put_tensors_of_every_type_one_behind_the_other) {
  for (const auto type : all_element_types) {
    SCOPED_TRACE(to_string(type));
    for (int round = 0; round < 4; ++round) {
      extents shape;
      const auto rank = between(1, 4);
      for (std::int64_t d = 0; d < rank; ++d) shape.push_back(between(1, 6));
      const auto axis = static_cast<std::size_t>(between(0, rank - 1));
      std::vector<elements> x;
      for (auto count = between(1, 5); count > 0; --count) {
        shape[axis] = between(0, 9);
        // Without gaps, the launch uses it as it is.
        x.push_back(coin() ? make(type, shape) : make_contiguous(type, shape));
      }
      expect_concatenation(x, axis, coin());
    }
  }
}

TEST_P(concatenations, take_the_most_tensors) {
  std::vector<elements> x;
  for (std::size_t i = 0; i + 1 < max_operands; ++i) {
    x.push_back(make_contiguous(element_type::u16, {3, between(0, 700)}));
  }
  expect_concatenation(x, 1, false);
}

TEST_P(concatenations, copy_large_and_aligned_rows) {
  for (const std::int64_t columns : {4096, 4097, 100003}) {
    expect_concatenation({make_contiguous(element_type::f32, {33, columns}),
                          make_contiguous(element_type::f32, {33, 64})},
                         1, false);
  }
  expect_concatenation(
      {make_contiguous(element_type::u8, {3000001}), make_contiguous(element_type::u8, {1}),
       make_contiguous(element_type::u8, {2000003})},
      0, false);
}

// Pieces of several elements are not aligned to their size.
TEST_P(concatenations, interleave_small_pieces) {
  for (const auto type :
       {element_type::u8, element_type::bf16, element_type::f32, element_type::f64}) {
    for (const std::int64_t rows : {1, 77, 100'003}) {
      const auto columns = std::int64_t{1} << between(0, 2);
      std::vector<elements> x;
      for (auto i = between(2, 9); i > 0; --i) {
        x.push_back(make_contiguous(type, {rows, columns}, drawn::numbers, coin() ? 1 : 0));
      }
      expect_concatenation(x, 1, false);
    }
  }
}

// The host device stores them past the caches, in pieces that begin between vectors.
TEST_P(concatenations, copy_results_larger_than_caches) {
  const auto first = make_contiguous(element_type::f32, {830, 1249});
  const auto second = make_contiguous(element_type::f32, {830, 1301});
  expect_concatenation({first, second}, 1, false);
}

TEST_P(concatenations, keep_the_order_of_dimensions_in_memory) {
  const strided_layout channels_last{.shape = {2, 3, 4, 5}, .order = {0, 2, 3, 1}};
  const elements a(runtime(), stream(), generator(), element_type::f16, channels_last);
  const elements b(runtime(), stream(), generator(), element_type::f16, channels_last);
  const auto joined = run(test_executor(), concatenate{.x = {a.view(), b.view()}, .axis = 1});
  EXPECT_EQ(joined.shape(), (extents{2, 6, 4, 5}));
  EXPECT_EQ(joined.strides(), (extents{120, 1, 30, 6}));
  const auto stacked = run(test_executor(), stack{.x = {a.view(), b.view()}});
  EXPECT_EQ(stacked.shape(), (extents{2, 2, 3, 4, 5}));
  EXPECT_EQ(stacked.strides(), (extents{120, 60, 1, 15, 3}));
  expect_elements(stacked, [&](const extents& i) {
    const extents source{i[1], i[2], i[3], i[4]};
    return i[0] == 0 ? a[source] : b[source];
  });
}

TEST_P(concatenations, stack_tensors_along_every_new_dimension) {
  for (const auto type : {element_type::boolean, element_type::bf16, element_type::c128}) {
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      extents shape;
      for (std::int64_t d = 0; d < rank; ++d) shape.push_back(between(1, 5));
      for (std::int64_t axis = -rank - 1; axis <= rank; ++axis) {
        SCOPED_TRACE(axis);
        std::vector<elements> x;
        for (auto count = between(1, 5); count > 0; --count) x.push_back(make(type, shape));
        const auto dimension = static_cast<std::size_t>(axis < 0 ? axis + rank + 1 : axis);
        extents result;
        for (std::size_t d = 0; d <= shape.size(); ++d) {
          if (d == dimension) result.push_back(static_cast<std::int64_t>(x.size()));
          if (d < shape.size()) result.push_back(shape[d]);
        }
        expect_right(stack{.axis = axis}, x, result, [&](const extents& index) {
          extents source;
          for (std::size_t d = 0; d < index.size(); ++d) {
            if (d != dimension) source.push_back(index[d]);
          }
          return x[static_cast<std::size_t>(index[dimension])][source];
        });
      }
    }
  }
}

TEST_P(concatenations, of_nothing_are_nothing) {
  const auto empty = make_contiguous(element_type::f32, {0, 4});
  const auto result =
      run(test_executor(), concatenate{.x = {empty.view(), empty.view()}, .axis = -1});
  EXPECT_EQ(result.shape(), (extents{0, 8}));
  EXPECT_EQ(run(test_executor(), stack{.x = {empty.view()}, .axis = 2}).shape(),
            (extents{0, 4, 1}));
}

TEST_P(concatenations, take_a_tensor_several_times) {
  const auto x = make(element_type::i32, {3, 2});
  const auto result =
      run(test_executor(), concatenate{.x = {x.view(), x.view(), x.view()}, .axis = 1});
  expect_elements(result, [&](const extents& i) { return x[extents{i[0], i[1] % 2}]; });
}

TEST_P(concatenations, are_steps_of_programs) {
  const auto a = make(element_type::f32, {2, 3});
  const auto b = make(element_type::f32, {2, 4});
  const auto constant = make(element_type::f32, {2, 2});
  program_builder p;
  const auto first = p.input("first");
  const auto second = p.input("second");
  const auto sum = p.add("sum", add(first, first));
  const auto joined =
      p.add("joined", concatenate{.x = {sum, second, constant.view(), second}, .axis = 1});
  const program joining = std::move(p).build({joined, joined.transposed()});
  EXPECT_NE(joining.text().find("joined = concatenate(x[0] = sum, x[1] = second, "
                                "x[2] = joined.x[2], x[3] = second)"),
            std::string::npos)
      << joining.text();
  for (int runs = 0; runs < 2; ++runs) {
    const auto results = run(test_executor(), sluice::run{joining, {a.view(), b.view()}});
    expect_elements(results[0], [&](const extents& i) {
      if (i[1] < 3) return a[i] + a[i];
      if (i[1] < 7) return b[extents{i[0], i[1] - 3}];
      return i[1] < 9 ? constant[extents{i[0], i[1] - 7}] : b[extents{i[0], i[1] - 9}];
    });
    EXPECT_EQ(results[1].shape(), (extents{13, 2}));
  }
}

TEST_P(concatenations, refuse_what_does_not_fit) {
  const auto f32 = [&](const extents& shape) {
    return make(element_type::f32, shape).view();
  };
  const auto refuse = [&](const std::string& text, auto operation) {
    EXPECT_TRUE(throws(errc::invalid_argument, text,
                       [&] { (void)run(test_executor(), std::move(operation)); }));
  };
  const auto x = f32({2, 3});
  refuse("x: is empty", concatenate{});
  refuse("x: is empty", stack{});
  refuse("x[1]: is not given", concatenate{.x = {x, {}}});
  refuse("x[0]: has no dimension", concatenate{.x = {f32({})}});
  refuse("axis: 2 is not one of the 2 dimensions", concatenate{.x = {x}, .axis = 2});
  refuse("axis: -4 is not one of the 3 dimensions", stack{.x = {x}, .axis = -4});
  refuse("x[1]: has the shape [2, 4]", concatenate{.x = {x, f32({2, 4})}});
  refuse("x[2]: has the shape [2]", concatenate{.x = {x, x, f32({2})}, .axis = 1});
  refuse("x[1]: has the shape [3, 2]", stack{.x = {x, f32({3, 2})}});
  refuse("x[1]: is of type i32", concatenate{.x = {x, make(element_type::i32, {2, 3}).view()}});
  refuse("y: has the shape", concatenate{.x = {x, x}, .y = f32({3, 3})});
  refuse("y: shares memory with x[1]", concatenate{.x = {f32({1, 3}), x.slice(0, 0, 1)}, .y = x});
  refuse("x: has 64 operands, but takes at most 63",
         stack{.x = std::vector<operand>(max_operands, x)});
  extents full;
  for (std::size_t d = 0; d < extents::max_rank; ++d) full.push_back(1);
  refuse("x[0]: has 8 dimensions", stack{.x = {f32(full)}});
  const auto repeated = make(element_type::u8, {1}).view().broadcast_to({std::int64_t{1} << 62U});
  refuse("x[1]: has the shape", concatenate{.x = {repeated, repeated}});
}

INSTANTIATE_TEST_SUITE_P(devices, concatenations, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
