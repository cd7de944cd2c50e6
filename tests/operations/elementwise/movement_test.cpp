// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/elementwise/indexing.hpp"

#include <sluice/operations/movement.hpp>
#include <sluice/operations/program.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// The index of an element of X for an index behind, before or within its extent.
std::optional<std::int64_t> padded_index(pad_mode mode, std::int64_t index, std::int64_t extent) {
  if (index >= 0 && index < extent) return index;
  switch (mode) {
    case pad_mode::constant:
      return std::nullopt;
    case pad_mode::edge:
      return index < 0 ? 0 : extent - 1;
    case pad_mode::wrap:
      return (index % extent + extent) % extent;
    case pad_mode::reflect:
      break;
  }
  if (extent == 1) return 0;
  // One step after the other, from mirror to mirror.
  while (index < 0 || index >= extent) index = index < 0 ? -index : 2 * (extent - 1) - index;
  return index;
}

constexpr auto all_modes = {pad_mode::constant, pad_mode::edge, pad_mode::reflect, pad_mode::wrap};

class movements : public indexing_test {
 protected:
  void expect_pad(element_type type, const extents& shape, const extents& before,
                  const extents& after, pad_mode mode) {
    SCOPED_TRACE(std::string(to_string(type)) + ' ' + to_string(shape) + ", before " +
                 to_string(before) + ", after " + to_string(after) + ", mode " +
                 std::to_string(static_cast<int>(mode)));
    const auto x = make(type, shape, drawn::bits);
    const auto value = mode == pad_mode::constant && coin() ? 1 : 0;
    auto result_shape = shape;
    for (std::size_t d = 0; d < shape.size(); ++d) result_shape[d] += before[d] + after[d];
    expect_right(pad{.x = x.view(), .before = before, .after = after, .mode = mode, .value = value},
                 type, result_shape, [&](const extents& i) {
                   auto source = i;
                   for (std::size_t d = 0; d < i.size(); ++d) {
                     const auto first = std::max<std::int64_t>(-before[d], 0);
                     const auto extent = shape[d] - first - std::max<std::int64_t>(-after[d], 0);
                     const auto index =
                         padded_index(mode, i[d] - std::max<std::int64_t>(before[d], 0), extent);
                     if (!index) return number(value);
                     source[d] = *index + first;
                   }
                   return x[source];
                 });
  }
  extents numbers_of(const extents& shape, std::int64_t least, std::int64_t most) {
    auto numbers = shape;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      numbers[d] = coin() ? 0 : between(least, most);
    }
    return numbers;
  }
};

TEST_P(movements, pads_of_all_types_shapes_modes_and_strides) {
  for (const auto type : all_element_types) {
    for (const auto mode : all_modes) {
      for (int round = 0; round < 8; ++round) {
        auto shape = random_shape(0, 5);
        if (mode != pad_mode::constant) {
          for (auto* e = shape.data(); e != shape.end(); ++e) *e = std::max<std::int64_t>(*e, 1);
        }
        auto before = numbers_of(shape, 0, 5);
        auto after = numbers_of(shape, 0, 5);
        for (std::size_t d = 0; d < shape.size(); ++d) {
          if (shape[d] < 3 || coin()) continue;
          (coin() ? before : after)[d] = -between(0, shape[d] - 1);
        }
        expect_pad(type, shape, before, after, mode);
      }
    }
  }
}

TEST_P(movements, pads_of_infinities) {
  for (const auto type :
       {element_type::f16, element_type::bf16, element_type::f32, element_type::f64}) {
    for (const double value : {HUGE_VAL, -HUGE_VAL}) {
      const auto x = make(type, {3}, drawn::bits);
      expect_right(
          pad{.x = x.view(), .before = {1}, .after = {2}, .value = value}, type, {6},
          [&](const extents& i) { return i[0] < 1 || i[0] > 3 ? number(value) : x[{i[0] - 1}]; });
    }
  }
}

TEST_P(movements, pads_of_vectors_of_16_bytes) {
  for (const auto mode : all_modes) {
    for (const auto type : {element_type::u8, element_type::f16, element_type::f32}) {
      expect_pad(type, {5, 7, 64}, {1, 2, 0}, {3, 0, 0}, mode);
      expect_pad(type, {3, 64}, {0, 16}, {0, 48}, mode);
      expect_pad(type, {3, 64}, {0, -16}, {0, 32}, mode);
      expect_pad(type, {2, 48, 64}, {0, 16, 0}, {0, 8, 0}, mode);
    }
  }
}

TEST_P(movements, pads_of_most_dimensions_and_of_many_elements) {
  for (const auto mode : all_modes) {
    expect_pad(element_type::i32, {2, 1, 3, 2, 1, 2, 2, 3}, {1, 1, 0, 0, 1, 0, 0, 2},
               {0, 0, 1, 0, 1, 0, 1, 0}, mode);
    expect_pad(element_type::f32, {3, 211, 307}, {0, 3, 5}, {0, 2, 1}, mode);
    expect_pad(element_type::u8, {3}, {1000}, {2000}, mode);
  }
}

TEST_P(movements, pads_of_nothing) {
  expect_pad(element_type::f32, {0, 3}, {2, 1}, {1, 0}, pad_mode::constant);
  expect_pad(element_type::f32, {4, 3}, {-4, 1}, {2, 0}, pad_mode::constant);
  expect_pad(element_type::f32, {4, 3}, {-3, 0}, {-1, 0}, pad_mode::reflect);
  expect_pad(element_type::f32, {0, 3}, {0, 1}, {0, 2}, pad_mode::edge);
  expect_pad(element_type::f32, {3, 0}, {0, 1}, {0, 0}, pad_mode::constant);
  const auto x = make(element_type::f32, {3, 4});
  expect_elements(run(test_executor(), pad{.x = x.view()}), [&](const extents& i) { return x[i]; });
}

TEST_P(movements, tiles_of_all_types_shapes_and_strides) {
  for (const auto type : all_element_types) {
    for (int round = 0; round < 8; ++round) {
      const auto shape = random_shape(0, 5);
      auto repeats = shape;
      auto result_shape = shape;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        repeats[d] = between(0, 9) == 0 ? 0 : between(1, 4);
        result_shape[d] *= repeats[d];
      }
      SCOPED_TRACE(to_string(shape) + " times " + to_string(repeats));
      const auto x = make(type, shape, drawn::bits);
      expect_right(tile{.x = x.view(), .repeats = repeats}, type, result_shape,
                   [&](const extents& i) {
                     auto source = i;
                     for (std::size_t d = 0; d < i.size(); ++d) source[d] %= shape[d];
                     return x[source];
                   });
    }
  }
}

TEST_P(movements, tiles_of_short_and_long_lines) {
  for (const std::int64_t length : {1, 3, 16, 1000, 20'000}) {
    const auto x = make_contiguous(element_type::f32, {2, length});
    expect_elements(run(test_executor(), tile{.x = x.view(), .repeats = {2, 101}}),
                    [&](const extents& i) {
                      return x[{i[0] % 2, i[1] % length}];
                    });
  }
}

TEST_P(movements, rolls_of_all_types_shapes_and_strides) {
  for (const auto type : all_element_types) {
    for (int round = 0; round < 8; ++round) {
      const auto shape = random_shape(1, 6);
      auto total = shape;
      std::fill_n(total.data(), total.size(), 0);
      extents shifts;
      extents axes;
      for (std::int64_t n = between(0, 3); n > 0; --n) {
        const auto d = between(0, rank_of(shape) - 1);
        axes.push_back(coin() ? d : d - rank_of(shape));
        shifts.push_back(between(-100, 100));
        total[static_cast<std::size_t>(d)] += shifts[shifts.size() - 1];
      }
      SCOPED_TRACE(to_string(shape) + " by " + to_string(shifts) + " along " + to_string(axes));
      const auto x = make(type, shape, drawn::bits);
      expect_right(roll{.x = x.view(), .shifts = shifts, .axes = axes}, type, shape,
                   [&](const extents& i) {
                     auto source = i;
                     for (std::size_t d = 0; d < i.size(); ++d) {
                       source[d] = *padded_index(pad_mode::wrap, i[d] - total[d], shape[d]);
                     }
                     return x[source];
                   });
    }
  }
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  const auto x = make(element_type::i16, {10});
  expect_elements(run(test_executor(),
                      roll{.x = x.view(), .shifts = {most, -most - 1, most}, .axes = {0, 0, -1}}),
                  [&](const extents& i) { return x[{(i[0] - (7 - 8 + 7) + 10) % 10}]; });
}

TEST_P(movements, triangles_of_all_types_shapes_and_strides) {
  for (const auto type : all_element_types) {
    for (int round = 0; round < 8; ++round) {
      const auto shape = random_shape(2, 5);
      const auto x = make(type, shape, drawn::bits);
      const bool upper = coin();
      const auto diagonal = between(-8, 8);
      const auto rank = shape.size();
      SCOPED_TRACE(to_string(shape) + (upper ? " above " : " below ") + std::to_string(diagonal));
      const auto expected = [&](const extents& i) {
        const auto distance = i[rank - 1] - i[rank - 2];
        const bool is_part = upper ? distance >= diagonal : distance <= diagonal;
        return is_part ? x[i] : number(0);
      };
      expect_right(triangle{.x = x.view(), .upper = upper, .diagonal = diagonal}, type, shape,
                   expected);
      triangle in_place{.x = x.view(), .upper = upper, .diagonal = diagonal, .y = x.view()};
      EXPECT_EQ(run(test_executor(), in_place), x.view());
      expect_elements(x.view(), expected);
    }
  }
}

TEST_P(movements, eyes) {
  for (const auto type : all_element_types) {
    const auto shape = random_shape(2, 4);
    const auto diagonal = between(-3, 3);
    expect_right(eye{.shape = shape, .diagonal = diagonal, .type = type}, type, shape,
                 [&](const extents& i) {
                   return number(i[i.size() - 1] - i[i.size() - 2] == diagonal ? 1 : 0);
                 });
  }
  EXPECT_EQ(run(test_executor(), eye{.shape = extents{2, 3}}).type(), element_type::f32);
}

TEST_P(movements, ranges) {
  for (const auto type : computed_element_types) {
    if (type == element_type::boolean || is_complex_type(type)) continue;
    const auto start = between(0, 50);
    const auto step = between(1, 5);
    const auto count = between(0, 12);
    const auto limit = start + step * count - between(0, count == 0 ? 50 : step - 1);
    expect_right(range{.start = start, .limit = limit, .step = step, .type = type}, type, {count},
                 [&](const extents& i) { return number(start + i[0] * step); });
    expect_right(range{.start = start + step * count, .limit = start, .step = -step, .type = type},
                 type, {count},
                 [&](const extents& i) { return number(start + (count - i[0]) * step); });
  }
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  const range wide{.start = -most, .limit = most, .step = most, .type = element_type::i64};
  expect_elements(run(test_executor(), wide), [&](const extents& i) {
    return number(static_cast<long double>((i[0] - 1) * most));
  });
  const range real{.start = 1, .limit = 0, .step = -0.1, .type = element_type::f64};
  EXPECT_EQ(run(test_executor(), real).shape(), extents{10});
  expect_elements(run(test_executor(), real),
                  [&](const extents& i) { return number(1 + static_cast<double>(i[0]) * -0.1); });
}

TEST_P(movements, one_hot_of_all_types_shapes_and_strides) {
  for (const auto type : all_element_types) {
    for (int round = 0; round < 6; ++round) {
      const auto index_shape = random_shape(0, 5);
      const auto axis = between(0, rank_of(index_shape));
      const auto depth = between(0, 6);
      // Some indices are out of range.
      const auto indices = make_indices(index_shape, depth + 2);
      auto shape = part(index_shape, 0, axis);
      shape.push_back(depth);
      append(shape, part(index_shape, axis, rank_of(index_shape)));
      SCOPED_TRACE(to_string(index_shape) + " to " + to_string(shape));
      const bool has_values = type != element_type::boolean && coin();
      one_hot op{.indices = indices.view(),
                 .depth = depth,
                 .axis = coin() ? axis : axis - rank_of(shape),
                 .type = type};
      if (has_values) {
        op.on = 5;
        op.off = 3;
      }
      expect_right(op, type, shape, [&](const extents& i) {
        auto place = part(i, 0, axis);
        append(place, part(i, axis + 1, rank_of(i)));
        const auto index = index_at(indices, place, depth);
        const bool is_on = index == i[static_cast<std::size_t>(axis)];
        return number(is_on ? (has_values ? 5 : 1) : (has_values ? 3 : 0));
      });
    }
  }
}

TEST_P(movements, as_steps_of_a_program) {
  program_builder p;
  const auto x_input = p.input("x");
  const auto padded = p.add("padded", pad{.x = x_input, .before = {1, 0}, .after = {0, 1}});
  const auto lower = p.add("lower", triangle{.x = padded});
  const auto tiled = p.add("tiled", tile{.x = lower, .repeats = {1, 2}});
  const auto x = make(element_type::f32, {3, 3});
  const auto results = run(test_executor(), sluice::run{std::move(p).build({tiled}), {x.view()}});
  expect_elements(results[0], [&](const extents& i) {
    const auto column = i[1] % 4;
    return column > i[0] || i[0] == 0 || column == 3 ? number(0) : x[{i[0] - 1, column}];
  });
}

INSTANTIATE_TEST_SUITE_P(devices, movements, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
