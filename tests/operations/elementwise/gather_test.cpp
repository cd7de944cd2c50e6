// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/elementwise/indexing.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/gather.hpp>
#include <sluice/operations/program.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class gathers : public indexing_test {
 protected:
  void expect_gather(element_type type, const extents& shape, const extents& index_shape,
                     std::int64_t axis) {
    SCOPED_TRACE(std::string(to_string(type)) + ' ' + to_string(shape) + " at " +
                 to_string(index_shape) + " along " + std::to_string(axis));
    const auto x = make(type, shape, drawn::bits);
    const auto indices = make_indices(index_shape, shape[static_cast<std::size_t>(axis)]);
    auto result_shape = part(shape, 0, axis);
    append(result_shape, index_shape);
    append(result_shape, part(shape, axis + 1, rank_of(shape)));
    expect_right(gather{.x = x.view(),
                        .indices = indices.view(),
                        .axis = coin() ? axis : axis - rank_of(shape)},
                 type, result_shape, [&](const extents& i) {
                   const auto behind = axis + rank_of(index_shape);
                   auto source = part(i, 0, axis);
                   source.push_back(index_at(indices, part(i, axis, behind),
                                             shape[static_cast<std::size_t>(axis)]));
                   append(source, part(i, behind, rank_of(i)));
                   return x[source];
                 });
  }
};

TEST_P(gathers, slices_of_all_types_shapes_and_strides) {
  for (const auto type : all_element_types) {
    for (int round = 0; round < 12; ++round) {
      auto shape = random_shape(1, 5);
      const auto axis = between(0, rank_of(shape) - 1);
      auto& extent = shape[static_cast<std::size_t>(axis)];
      if (extent == 0) extent = 1;
      expect_gather(type, shape,
                    random_shape(0, 8 - shape.size() + 1 < 3 ? 8 - shape.size() + 1 : 3), axis);
    }
  }
}

TEST_P(gathers, slices_of_most_dimensions) {
  expect_gather(element_type::f32, {2, 2, 2, 2, 2, 2, 2, 2}, {3}, 4);
  expect_gather(element_type::u8, {5}, {2, 1, 2, 3, 1, 2, 1, 2}, 0);
  expect_gather(element_type::f16, {2, 3, 2, 2, 2, 2, 2, 2}, {}, 1);
}

// Rows of every length and at every alignment: 16 bytes at a time, fewer, and single elements.
TEST_P(gathers, rows_of_tables) {
  for (const auto type : {element_type::u8, element_type::bf16, element_type::f32,
                          element_type::f64, element_type::c128}) {
    for (const std::int64_t length : {1, 2, 3, 4, 8, 12, 16, 31, 64, 100}) {
      const auto x = make_contiguous(type, {37, length}, drawn::bits);
      const auto indices = make_indices({50}, 37);
      const auto row_of = [&](const extents& i) {
        return index_at(indices, part(i, 0, 1), 37);
      };
      expect_elements(run(test_executor(), gather{.x = x.view(), .indices = indices.view()}),
                      [&](const extents& i) {
                        return x[{row_of(i), i[1]}];
                      });
      const auto first = between(0, length - 1);
      expect_elements(run(test_executor(),
                          gather{.x = x.view().slice(1, first, length), .indices = indices.view()}),
                      [&](const extents& i) {
                        return x[{row_of(i), i[1] + first}];
                      });
    }
  }
}

TEST_P(gathers, a_large_table) {
  expect_gather(element_type::f32, {1009, 256}, {4099}, 0);
  expect_gather(element_type::f16, {257, 1031}, {521}, 1);
}

// The host device stores it past the caches, in rows that begin between vectors.
TEST_P(gathers, a_result_larger_than_caches) {
  expect_gather(element_type::f32, {7, 1251}, {1700}, 0);
}

TEST_P(gathers, elements_of_all_types_shapes_and_strides) {
  for (const auto type : all_element_types) {
    for (int round = 0; round < 12; ++round) {
      auto shape = random_shape(1);
      const auto axis = static_cast<std::size_t>(between(0, rank_of(shape) - 1));
      if (shape[axis] == 0) shape[axis] = 2;
      auto index_shape = shape;
      for (auto* extent = index_shape.data(); extent != index_shape.end(); ++extent) {
        *extent = coin() ? *extent : between(0, *extent);
      }
      index_shape[axis] = between(0, 9);
      SCOPED_TRACE(to_string(shape) + " at " + to_string(index_shape) + " along " +
                   std::to_string(axis));
      const auto x = make(type, shape, drawn::bits);
      const auto indices = make_indices(index_shape, shape[axis]);
      expect_right(
          gather_elements{
              .x = x.view(), .indices = indices.view(), .axis = static_cast<std::int64_t>(axis)},
          type, index_shape, [&](const extents& i) {
            auto source = i;
            source[axis] = index_at(indices, i, shape[axis]);
            return x[source];
          });
    }
  }
}

TEST_P(gathers, slices_at_points) {
  for (const auto type : all_element_types) {
    for (int round = 0; round < 12; ++round) {
      auto shape = random_shape(1, 5);
      const auto batch = between(0, rank_of(shape) - 1);
      const auto count = between(1, rank_of(shape) - batch);
      for (auto d = batch; d < batch + count; ++d) {
        auto& extent = shape[static_cast<std::size_t>(d)];
        if (extent == 0) extent = 1;
      }
      auto index_shape = part(shape, 0, batch);
      append(index_shape, random_shape(0, 2));
      const auto points = rank_of(index_shape);
      index_shape.push_back(count);
      SCOPED_TRACE(to_string(shape) + " at " + to_string(index_shape) + ", " +
                   std::to_string(batch) + " batch dimensions");
      const auto x = make(type, shape, drawn::bits);
      const auto indices = make_points(index_shape, part(shape, batch, batch + count));
      auto result_shape = part(index_shape, 0, points);
      append(result_shape, part(shape, batch + count, rank_of(shape)));
      expect_right(gather_nd{.x = x.view(), .indices = indices.view(), .batch_dims = batch}, type,
                   result_shape, [&](const extents& i) {
                     auto source = part(i, 0, batch);
                     append(source, point_at(indices, part(i, 0, points),
                                             part(shape, batch, batch + count)));
                     append(source, part(i, points, rank_of(i)));
                     return x[source];
                   });
    }
  }
}

TEST_P(gathers, indices_out_of_range) {
  const bool is_host = runtime().device().id().kind == device_kind::host;
  const auto x = make(element_type::f32, {5, 3});
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t index : {std::int64_t{5}, std::int64_t{-6}, most, -most - 1}) {
    auto indices = make_contiguous(element_type::i64, {4});
    indices.set(std::vector<std::int64_t>{index});
    const auto clamped = index < 0 ? 0 : 4;
    const auto expect_clamped = [&](auto operation, const auto& expected) {
      for (const auto policy :
           {out_of_range_policy::usual, out_of_range_policy::clamp, out_of_range_policy::error}) {
        operation.out_of_range = policy;
        const bool is_usual = policy == out_of_range_policy::usual;
        if (is_usual ? is_host : policy == out_of_range_policy::error) {
          EXPECT_TRUE(throws(errc::invalid_argument, "indices: " + std::to_string(index),
                             [&] { (void)run(test_executor(), operation); }));
        } else {
          expect_elements(run(test_executor(), operation), expected);
        }
      }
    };
    expect_clamped(gather{.x = x.view(), .indices = indices.view()}, [&](const extents& i) {
      return x[{clamped, i[1]}];
    });
    expect_clamped(gather{.x = x.view().transposed(), .indices = indices.view(), .axis = 1},
                   [&](const extents& i) {
                     return x[{clamped, i[0]}];
                   });
    expect_clamped(gather_elements{.x = x.view(), .indices = indices.view().reshape({4, 1})},
                   [&](const extents&) {
                     return x[{clamped, 0}];
                   });
    const auto last = index < 0 ? 0 : 2;
    expect_clamped(gather_nd{.x = x.view(), .indices = indices.view().reshape({2, 2})},
                   [&](const extents&) {
                     return x[{clamped, last}];
                   });
  }
}

TEST_P(gathers, nothing) {
  const auto x = make(element_type::f32, {0, 3});
  const auto none = make(element_type::i64, {2, 0});
  const auto some = make_indices({2}, 1);
  EXPECT_EQ(run(test_executor(), gather{.x = x.view(), .indices = none.view()}).shape(),
            (extents{2, 0, 3}));
  EXPECT_EQ(run(test_executor(), gather{.x = x.view(), .indices = some.view(), .axis = 1}).shape(),
            (extents{0, 2}));
  EXPECT_TRUE(throws(errc::invalid_argument, "x: has the shape [0, 3]", [&] {
    (void)run(test_executor(), gather{.x = x.view(), .indices = some.view()});
  }));
}

TEST_P(gathers, of_repeated_elements_and_indices) {
  const auto x = make(element_type::i32, {7, 1});
  const auto index = make_indices({1}, 7);
  const auto expected = x[{index_at(index, {0}, 7), 0}];
  expect_elements(run(test_executor(), gather{.x = x.view().broadcast_to({7, 5}),
                                              .indices = index.view().broadcast_to({11})}),
                  [&](const extents&) { return expected; });
}

TEST_P(gathers, as_a_step_of_a_program) {
  program_builder p;
  const auto table = p.input("table");
  const auto tokens = p.input("tokens");
  const auto rows = p.add("rows", gather{.x = table, .indices = tokens});
  const auto doubled = p.add("doubled", add(rows, rows));
  const auto x = make(element_type::f32, {9, 16});
  const auto indices = make_indices({2, 5}, 9);
  const auto results =
      run(test_executor(), sluice::run{std::move(p).build({doubled}), {x.view(), indices.view()}});
  expect_elements(results[0], [&](const extents& i) {
    return x[{index_at(indices, part(i, 0, 2), 9), i[2]}] * number(2);
  });
}

INSTANTIATE_TEST_SUITE_P(devices, gathers, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
