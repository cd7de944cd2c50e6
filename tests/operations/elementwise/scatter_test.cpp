// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/elementwise/indexing.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/program.hpp>
#include <sluice/operations/scatter.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

constexpr auto all_kinds = {scatter_combine::set, scatter_combine::add, scatter_combine::multiply,
                            scatter_combine::minimum, scatter_combine::maximum};

/// An element of a type after an update.
number combined(scatter_combine combine, element_type type, const number& element,
                const number& update) {
  if (combine == scatter_combine::set) return update;
  if (combine == scatter_combine::minimum) return std::min(element.real(), update.real());
  if (combine == scatter_combine::maximum) return std::max(element.real(), update.real());
  const bool adds = combine == scatter_combine::add;
  if (type < element_type::f16) {
    const auto bits = [](const number& value) {
      return value.real() < 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(value.real()))
                              : static_cast<std::uint64_t>(value.real());
    };
    const auto result = adds ? bits(element) + bits(update) : bits(element) * bits(update);
    return with_integer_type(type, [&](auto integer) {
      return number(static_cast<long double>(static_cast<decltype(integer)>(result)));
    });
  }
  const auto result = adds ? element + update : element * update;
  const auto real =
      to_real_type(type == element_type::c128 ? element_type::f64 : type, result.real());
  if (!is_complex_type(type)) return real;
  return {real, to_real_type(type == element_type::c128 ? element_type::f64 : type, result.imag())};
}

class scatters : public indexing_test {
 protected:
  /// Elements of X by their index, after updates.
  using updated = std::map<std::vector<std::int64_t>, number>;

  [[nodiscard]] static std::vector<std::int64_t> key(const extents& index) {
    return {index.begin(), index.end()};
  }
  /// Whether a GPU may make updates in any order without a difference.
  [[nodiscard]] static bool ignores_order(scatter_combine combine, element_type type) {
    return combine != scatter_combine::set &&
           (combine != scatter_combine::multiply || type < element_type::f16);
  }
  [[nodiscard]] static bool takes(scatter_combine combine, element_type type) {
    if (is_float8_type(type)) return combine == scatter_combine::set;
    return combine <= scatter_combine::multiply || !is_complex_type(type);
  }

  /// Runs an operation whose updates are at `place_of(index)`, with a new Y, a given Y and in
  /// place.
  template <class Operation, class PlaceOf>
  void expect_scattered(Operation op, const elements& x, const elements& updates,
                        const PlaceOf& place_of) {
    const auto type = x.type();
    op.deterministic = !ignores_order(op.combine, type) || coin();
    updated all;
    for_each_index(updates.view().shape(), [&](const extents& index) {
      const auto place = place_of(index);
      const auto [element, is_new] = all.emplace(key(place), x[place]);
      element->second = combined(op.combine, type, element->second, updates[index]);
    });
    const auto expected = [&](const extents& index) {
      const auto found = all.find(key(index));
      // Integers and comparisons have no negative zeros here; products may.
      return found != all.end() ? found->second : x[index];
    };
    const auto expect_equal = [&](const tensor& y) {
      expect_each(y, [&](const extents& index, const number& computed) {
        const auto wanted = expected(index);
        return computed == wanted ||
                       (op.combine == scatter_combine::multiply && is_complex_type(type) &&
                        std::abs(computed - wanted) <= 1e-6L * std::abs(wanted))
                   ? ::testing::AssertionSuccess()
                   : ::testing::AssertionFailure()
                         << computed.real() << " is not " << wanted.real();
      });
    };
    const auto y = make(type, x.view().shape());
    if (coin()) {
      op.y = y.view();
      expect_equal(run(test_executor(), op));
      expect_gaps_untouched(y);
    } else {
      expect_equal(run(test_executor(), op));
    }
    op.y = x.view();
    EXPECT_EQ(run(test_executor(), op), x.view());
    expect_equal(x.view());
    expect_gaps_untouched(x);
  }
};

TEST_P(scatters, elements_of_all_types_shapes_and_strides) {
  for (const auto type : all_element_types) {
    for (const auto combine : all_kinds) {
      if (!takes(combine, type)) continue;
      for (int round = 0; round < 6; ++round) {
        auto shape = random_shape(1, 6);
        const auto axis = static_cast<std::size_t>(between(0, rank_of(shape) - 1));
        if (shape[axis] == 0) shape[axis] = 2;
        auto index_shape = shape;
        for (auto* extent = index_shape.data(); extent != index_shape.end(); ++extent) {
          *extent = coin() ? *extent : between(0, *extent);
        }
        index_shape[axis] = between(0, 4);
        SCOPED_TRACE(std::string(to_string(type)) + ' ' + to_string(shape) + " at " +
                     to_string(index_shape) + " along " + std::to_string(axis) + ", combine " +
                     std::to_string(static_cast<int>(combine)));
        const auto x = make(type, shape, drawn::few);
        const auto indices = make_indices(index_shape, shape[axis]);
        const auto updates = make(type, index_shape, drawn::few);
        expect_scattered(scatter_elements{.x = x.view(),
                                          .indices = indices.view(),
                                          .updates = updates.view(),
                                          .axis = static_cast<std::int64_t>(axis),
                                          .combine = combine},
                         x, updates, [&](const extents& i) {
                           auto place = i;
                           place[axis] = index_at(indices, i, shape[axis]);
                           return place;
                         });
      }
    }
  }
}

TEST_P(scatters, slices_at_points) {
  for (const auto type : all_element_types) {
    for (const auto combine : all_kinds) {
      if (!takes(combine, type)) continue;
      for (int round = 0; round < 6; ++round) {
        auto shape = random_shape(1, 5);
        const auto count = between(1, rank_of(shape));
        for (auto* e = shape.data(); e != shape.end(); ++e) *e = std::max<std::int64_t>(*e, 1);
        auto index_shape = random_shape(0, 2);
        for (auto* e = index_shape.data(); e != index_shape.end(); ++e) {
          *e = std::min<std::int64_t>(*e, 3);
        }
        const auto points = rank_of(index_shape);
        auto update_shape = index_shape;
        append(update_shape, part(shape, count, rank_of(shape)));
        index_shape.push_back(count);
        SCOPED_TRACE(std::string(to_string(type)) + ' ' + to_string(shape) + " at " +
                     to_string(index_shape) + ", combine " +
                     std::to_string(static_cast<int>(combine)));
        const auto x = make(type, shape, drawn::few);
        const auto indices = make_points(index_shape, part(shape, 0, count));
        const auto updates = make(type, update_shape, drawn::few);
        expect_scattered(scatter_nd{.x = x.view(),
                                    .indices = indices.view(),
                                    .updates = updates.view(),
                                    .combine = combine},
                         x, updates, [&](const extents& i) {
                           auto place =
                               point_at(indices, part(i, 0, points), part(shape, 0, count));
                           append(place, part(i, points, rank_of(i)));
                           return place;
                         });
      }
    }
  }
}

TEST_P(scatters, many_sums_into_few_rows) {
  for (const auto type : {element_type::u8, element_type::i16, element_type::f16, element_type::f32,
                          element_type::i64, element_type::c64, element_type::c128}) {
    const auto x = make_contiguous(type, {3, 5}, drawn::few);
    const auto indices = make_indices({300, 1}, 3);
    const auto updates = make_contiguous(type, {300, 5}, drawn::few);
    expect_scattered(scatter_nd{.x = x.view(),
                                .indices = indices.view(),
                                .updates = updates.view(),
                                .combine = scatter_combine::add},
                     x, updates, [&](const extents& i) {
                       return extents{index_at(indices, {i[0], 0}, 3), i[1]};
                     });
  }
}

TEST_P(scatters, large_rows_at_different_places_in_any_order) {
  for (const auto type : {element_type::u8, element_type::f32, element_type::c128}) {
    const auto x = make_contiguous(type, {1009, 96}, drawn::bits);
    const auto updates = make_contiguous(type, {500, 96}, drawn::bits);
    std::vector<std::int64_t> places(1009);
    std::iota(places.begin(), places.end(), 0);
    std::shuffle(places.begin(), places.end(), generator());
    auto indices = make_contiguous(element_type::i64, {500, 1});
    indices.set(places);
    std::map<std::int64_t, std::int64_t> row_of_place;
    for (std::int64_t i = 0; i < 500; ++i) row_of_place[places[static_cast<std::size_t>(i)]] = i;
    expect_elements(
        run(test_executor(),
            scatter_nd{.x = x.view(), .indices = indices.view(), .updates = updates.view()}),
        [&](const extents& i) {
          const auto found = row_of_place.find(i[0]);
          return found == row_of_place.end() ? x[i] : updates[{found->second, i[1]}];
        });
  }
}

TEST_P(scatters, products_in_any_order) {
  const auto x = make_contiguous(element_type::f16, {1}, drawn::few);
  auto updates = make_contiguous(element_type::f16, {8});
  updates.set(std::vector<sluice::f16>{sluice::f16(2.0F), sluice::f16(-0.5F)});
  const auto indices = make_indices({8}, 1);
  expect_elements(run(test_executor(), scatter_elements{.x = x.view(),
                                                        .indices = indices.view(),
                                                        .updates = updates.view(),
                                                        .combine = scatter_combine::multiply}),
                  [&](const extents& i) { return x[i]; });
}

TEST_P(scatters, special_values) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  auto x = make_contiguous(element_type::f32, {3});
  x.set(std::vector<float>{0, nan, -0.0F});
  auto updates = make_contiguous(element_type::f32, {3});
  updates.set(std::vector<float>{-0.0F, 1, 0});
  auto indices = make_contiguous(element_type::i32, {3});
  indices.set(std::vector<std::int32_t>{0, 1, 2});
  const auto expect = [&](scatter_combine combine, const std::vector<float>& expected) {
    expect_elements(
        run(test_executor(), scatter_elements{.x = x.view(),
                                              .indices = indices.view(),
                                              .updates = updates.view(),
                                              .combine = combine}),
        [&](const extents& i) { return number(expected[static_cast<std::size_t>(i[0])]); });
  };
  expect(scatter_combine::minimum, {-0.0F, nan, -0.0F});
  expect(scatter_combine::maximum, {0, nan, 0});
  expect(scatter_combine::set, {-0.0F, 1, 0});
}

TEST_P(scatters, indices_out_of_range) {
  const bool is_host = runtime().device().id().kind == device_kind::host;
  const auto x = make(element_type::f32, {4});
  const auto updates = make(element_type::f32, {1});
  for (const std::int64_t index : {4, -5}) {
    auto indices = make_contiguous(element_type::i64, {1});
    indices.set(std::vector<std::int64_t>{index});
    const auto expect_clamped = [&](auto operation) {
      for (const auto policy :
           {out_of_range_policy::usual, out_of_range_policy::clamp, out_of_range_policy::error}) {
        operation.out_of_range = policy;
        const bool is_usual = policy == out_of_range_policy::usual;
        if (is_usual ? is_host : policy == out_of_range_policy::error) {
          EXPECT_TRUE(throws(errc::invalid_argument, "indices: " + std::to_string(index),
                             [&] { (void)run(test_executor(), operation); }));
        } else {
          expect_elements(run(test_executor(), operation), [&](const extents& i) {
            return i[0] == (index < 0 ? 0 : 3) ? updates[{0}] : x[i];
          });
        }
      }
    };
    expect_clamped(
        scatter_elements{.x = x.view(), .indices = indices.view(), .updates = updates.view()});
    expect_clamped(scatter_nd{
        .x = x.view(), .indices = indices.view().reshape({1, 1}), .updates = updates.view()});
  }
}

TEST_P(scatters, nothing) {
  const auto none = make(element_type::f32, {0, 3});
  const auto x = make(element_type::f32, {2, 3});
  const auto no_indices = make(element_type::i32, {0, 3});
  expect_elements(
      run(test_executor(),
          scatter_elements{.x = x.view(), .indices = no_indices.view(), .updates = none.view()}),
      [&](const extents& i) { return x[i]; });
  EXPECT_EQ(
      run(test_executor(),
          scatter_elements{.x = none.view(), .indices = no_indices.view(), .updates = none.view()})
          .shape(),
      (extents{0, 3}));
}

TEST_P(scatters, as_a_step_of_a_program) {
  program_builder p;
  const auto x_input = p.input("x");
  const auto index_input = p.input("indices");
  const auto update_input = p.input("updates");
  const auto y = p.add("y", scatter_nd{.x = x_input,
                                       .indices = index_input,
                                       .updates = update_input,
                                       .combine = scatter_combine::add});
  const auto x = make(element_type::i32, {5, 4}, drawn::few);
  const auto indices = make_indices({1, 1}, 5);
  const auto updates = make(element_type::i32, {1, 4}, drawn::few);
  const auto results =
      run(test_executor(),
          sluice::run{std::move(p).build({y}), {x.view(), indices.view(), updates.view()}});
  expect_elements(results[0], [&](const extents& i) {
    return i[0] == index_at(indices, {0, 0}, 5) ? x[i] + updates[{0, i[1]}] : x[i];
  });
}

INSTANTIATE_TEST_SUITE_P(devices, scatters, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
