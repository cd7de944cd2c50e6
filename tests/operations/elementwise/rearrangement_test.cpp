// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/elementwise/indexing.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/program.hpp>
#include <sluice/operations/rearrangement.hpp>
#include <sluice/operations/transfer.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// The channel of a deep image with the element [i, j] of a block of a channel.
std::int64_t deep_channel(depth_order order, std::int64_t block, std::int64_t channels,
                          std::int64_t channel, std::int64_t i, std::int64_t j) {
  const auto position = i * block + j;
  return order == depth_order::dcr ? position * channels + channel
                                   : channel * block * block + position;
}

/// Windows over one dimension of images.
struct column_windows {
  std::int64_t window = 1;
  std::int64_t stride = 1;
  std::int64_t before = 0;
  std::int64_t after = 0;
  std::int64_t dilation = 1;

  [[nodiscard]] std::int64_t count(std::int64_t extent) const {
    std::int64_t windows = 0;
    const auto reach = (window - 1) * dilation;
    for (auto begin = -before; begin + reach < extent + after; begin += stride) ++windows;
    return windows;
  }
};

class rearrangements : public indexing_test {
 protected:
  column_windows random_windows(std::int64_t extent) {
    column_windows w{between(1, 3), between(1, 3), between(0, 3), between(0, 3), between(1, 2)};
    const auto missing = (w.window - 1) * w.dilation + 1 - extent - w.before - w.after;
    w.after += std::max<std::int64_t>(missing, 0);
    return w;
  }
  /// Sets the windows of a request, whose lists may be left out if they have the default.
  template <class Operation>
  void set_windows(Operation& op, const column_windows& rows, const column_windows& columns) {
    const auto list_of = [&](std::int64_t column_windows::*member, std::int64_t otherwise) {
      const extents list{rows.*member, columns.*member};
      const bool is_default = list == extents{otherwise, otherwise};
      return is_default && coin() ? extents() : list;
    };
    op.window = {rows.window, columns.window};
    op.strides = list_of(&column_windows::stride, 1);
    op.before = list_of(&column_windows::before, 0);
    op.after = list_of(&column_windows::after, 0);
    op.dilation = list_of(&column_windows::dilation, 1);
  }
};

TEST_P(rearrangements, of_depth_and_space) {
  for (const auto type : all_element_types) {
    for (const auto order : {depth_order::dcr, depth_order::crd}) {
      for (const std::int64_t block : {1, 2, 3}) {
        const extents flat{between(1, 3), between(0, 3), block * between(1, 3),
                           block * between(1, 4)};
        const extents deep{flat[0], flat[1] * block * block, flat[2] / block, flat[3] / block};
        SCOPED_TRACE(std::string(to_string(type)) + ' ' + to_string(flat) + ", block " +
                     std::to_string(block));
        const auto space = make(type, flat, drawn::bits);
        const auto depth = make(type, deep, drawn::bits);
        expect_right(depth_to_space{.x = depth.view(), .block = block, .order = order}, type, flat,
                     [&](const extents& i) {
                       const auto channel =
                           deep_channel(order, block, flat[1], i[1], i[2] % block, i[3] % block);
                       return depth[{i[0], channel, i[2] / block, i[3] / block}];
                     });
        // The elements of each place of the deep image, found from the flat one.
        std::vector<extents> sources(
            static_cast<std::size_t>(deep[0] * deep[1] * deep[2] * deep[3]));
        const auto number_of = [&](const extents& i) {
          return static_cast<std::size_t>(((i[0] * deep[1] + i[1]) * deep[2] + i[2]) * deep[3] +
                                          i[3]);
        };
        for_each_index(flat, [&](const extents& i) {
          const auto channel =
              deep_channel(order, block, flat[1], i[1], i[2] % block, i[3] % block);
          sources[number_of({i[0], channel, i[2] / block, i[3] / block})] = i;
        });
        expect_right(space_to_depth{.x = space.view(), .block = block, .order = order}, type, deep,
                     [&](const extents& i) { return space[sources[number_of(i)]]; });
      }
    }
  }
}

TEST_P(rearrangements, of_reversed_dimensions) {
  for (const auto type : all_element_types) {
    for (int round = 0; round < 6; ++round) {
      const auto shape = random_shape(0, 5);
      extents axes;
      std::vector<bool> is_reversed(shape.size());
      for (std::int64_t d = 0; d < rank_of(shape); ++d) {
        if (coin()) continue;
        is_reversed[static_cast<std::size_t>(d)] = true;
        axes.push_back(coin() ? d : d - rank_of(shape));
      }
      SCOPED_TRACE(to_string(shape) + " along " + to_string(axes));
      const auto x = make(type, shape, drawn::bits);
      // `reverse` alone might mean the function of the standard library.
      expect_right(sluice::reverse{.x = x.view(), .axes = axes}, type, shape,
                   [&](const extents& i) {
                     auto source = i;
                     for (std::size_t d = 0; d < shape.size(); ++d) {
                       if (is_reversed[d]) source[d] = shape[d] - 1 - i[d];
                     }
                     return x[source];
                   });
    }
  }
  const auto many = make_contiguous(element_type::f32, {300, 701});
  const sluice::reverse rows{.x = many.view(), .axes = {0}};
  expect_elements(run(test_executor(), rows), [&](const extents& i) {
    return many[{299 - i[0], i[1]}];
  });
}

// The threads of a host device divide a line.
TEST_P(rearrangements, of_few_long_lines_write_nothing_behind_them) {
  const auto rows = between(3, 5);
  const auto columns = between(70'000, 90'000);
  const auto x = make_contiguous(element_type::f32, {rows, columns});
  const auto seven =
      run(test_executor(), sluice::fill{.value = 7, .shape = extents{rows + 2, columns}});
  const sluice::reverse request{.x = x.view(), .axes = {0}, .y = seven.slice(0, 0, rows)};
  expect_elements(run(test_executor(), request), [&](const extents& i) {
    return x[{rows - 1 - i[0], i[1]}];
  });
  expect_elements(seven.slice(0, rows, rows + 2), [](const extents&) { return number(7.0); });
}

TEST_P(rearrangements, of_slices_with_negative_steps) {
  const auto x = make_contiguous(element_type::i32, {10});
  // x[7:0:-3]
  const sluice::reverse request{.x = x.view().slice(0, 1, 8, 3), .axes = {0}};
  expect_elements(run(test_executor(), request),
                  [&](const extents& i) { return x[{7 - 3 * i[0]}]; });
}

TEST_P(rearrangements, of_sequences) {
  for (const auto type : all_element_types) {
    for (int round = 0; round < 6; ++round) {
      const auto shape = random_shape(2, 5);
      const auto time = between(0, rank_of(shape) - 1);
      const auto batch = (time + between(1, rank_of(shape) - 1)) % rank_of(shape);
      const auto extent = shape[static_cast<std::size_t>(time)];
      SCOPED_TRACE(to_string(shape) + " along " + std::to_string(time) + ", sequences along " +
                   std::to_string(batch));
      const auto x = make(type, shape, drawn::bits);
      // Some are negative or too long.
      const auto lengths = make_indices({shape[static_cast<std::size_t>(batch)]}, extent + 3);
      const reverse_sequence request{.x = x.view(),
                                     .lengths = lengths.view(),
                                     .time_axis = coin() ? time : time - rank_of(shape),
                                     .batch_axis = coin() ? batch : batch - rank_of(shape)};
      expect_right(request, type, shape, [&](const extents& i) {
        const auto stated =
            static_cast<std::int64_t>(lengths[{i[static_cast<std::size_t>(batch)]}].real());
        auto source = i;
        auto& t = source[static_cast<std::size_t>(time)];
        if (t < std::min(stated, extent)) t = std::min(stated, extent) - 1 - t;
        return x[source];
      });
    }
  }
}

TEST_P(rearrangements, of_windows_as_columns) {
  for (const auto type : all_element_types) {
    for (int round = 0; round < 4; ++round) {
      const extents shape{between(1, 2), between(0, 3), between(0, 6), between(1, 6)};
      const auto rows = random_windows(shape[2]);
      const auto columns = random_windows(shape[3]);
      const auto wide = columns.count(shape[3]);
      const extents result{shape[0], shape[1] * rows.window * columns.window,
                           rows.count(shape[2]) * wide};
      SCOPED_TRACE(std::string(to_string(type)) + ' ' + to_string(shape) + " to " +
                   to_string(result));
      const auto x = make(type, shape, drawn::bits);
      im2col request{.x = x.view()};
      set_windows(request, rows, columns);
      expect_right(request, type, result, [&](const extents& i) {
        const auto tap = i[1] % (rows.window * columns.window);
        const auto row =
            i[2] / wide * rows.stride - rows.before + tap / columns.window * rows.dilation;
        const auto column =
            i[2] % wide * columns.stride - columns.before + tap % columns.window * columns.dilation;
        const bool is_inside = row >= 0 && row < shape[2] && column >= 0 && column < shape[3];
        return is_inside ? x[{i[0], i[1] / (rows.window * columns.window), row, column}]
                         : number(0);
      });
    }
  }
}

TEST_P(rearrangements, of_columns_as_sums_of_windows) {
  for (const auto type : computed_element_types) {
    if (type == element_type::boolean) continue;
    for (int round = 0; round < 4; ++round) {
      const extents shape{between(1, 2), between(0, 3), between(1, 6), between(1, 6)};
      const auto rows = random_windows(shape[2]);
      const auto columns = random_windows(shape[3]);
      const auto wide = columns.count(shape[3]);
      const auto taps = rows.window * columns.window;
      const extents columns_shape{shape[0], shape[1] * taps, rows.count(shape[2]) * wide};
      SCOPED_TRACE(std::string(to_string(type)) + ' ' + to_string(columns_shape) + " to " +
                   to_string(shape));
      // Sums of few halves are exact in every type.
      const auto x = make(type, columns_shape, drawn::few);
      col2im request{.x = x.view(), .size = {shape[2], shape[3]}};
      set_windows(request, rows, columns);
      expect_right(request, type, shape, [&](const extents& i) {
        number sum = 0;
        for (std::int64_t tap = 0; tap < taps; ++tap) {
          for (std::int64_t window = 0; window < columns_shape[2]; ++window) {
            const auto row =
                window / wide * rows.stride - rows.before + tap / columns.window * rows.dilation;
            const auto column = window % wide * columns.stride - columns.before +
                                tap % columns.window * columns.dilation;
            if (row == i[2] && column == i[3]) sum += x[{i[0], i[1] * taps + tap, window}];
          }
        }
        return sum;
      });
    }
  }
}

TEST_P(rearrangements, wrap_sums_of_integers) {
  auto x = make_contiguous(element_type::i8, {1, 4, 4});
  x.set(std::vector<std::int8_t>{100});
  // All windows have the element in the middle.
  const col2im request{.x = x.view(), .size = {3, 3}, .window = {2, 2}};
  const auto y = run(test_executor(), request);
  EXPECT_EQ(y.shape(), (extents{1, 1, 3, 3}));
  expect_elements(y, [&](const extents& i) {
    const int windows = (i[2] == 1 ? 2 : 1) * (i[3] == 1 ? 2 : 1);
    return number(static_cast<std::int8_t>(100 * windows));
  });
}

TEST_P(rearrangements, name_windows_that_are_too_large) {
  const auto x = make(element_type::f32, {1, 2, 4, 5});
  const auto refuse = [&](const std::string& text, const im2col& request) {
    EXPECT_TRUE(throws(errc::invalid_argument, text, [&] { (void)run(test_executor(), request); }))
        << text;
  };
  refuse("window: is 5 high, but the padded images are 4 high", {.x = x.view(), .window = {5, 1}});
  refuse("window: is 7 wide when dilated, but the padded images are 5 wide",
         {.x = x.view(), .window = {1, 4}, .dilation = {1, 2}});
}

TEST_P(rearrangements, as_steps_of_a_program) {
  program_builder p;
  const auto x_input = p.input("x");
  const auto deep = p.add("deep", space_to_depth{.x = x_input, .block = 2});
  const auto flat = p.add("flat", depth_to_space{.x = deep, .block = 2});
  const auto back = p.add("back", sluice::reverse{.x = flat, .axes = {3}});
  const auto x = make(element_type::f16, {2, 3, 4, 6});
  const auto results = run(test_executor(), sluice::run{std::move(p).build({back}), {x.view()}});
  expect_elements(results[0], [&](const extents& i) { return x[{i[0], i[1], i[2], 5 - i[3]}]; });
}

INSTANTIATE_TEST_SUITE_P(devices, rearrangements, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
