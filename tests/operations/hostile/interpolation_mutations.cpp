// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/hostile/mutations.hpp"

#include <sluice/operations/grid_sample.hpp>
#include <sluice/operations/resize.hpp>

#include <cstddef>
#include <vector>

namespace sluice::test {
namespace {

using enum element_type;

resize valid_resize(bench& test_bench) {
  auto shape = any_shape(test_bench, 3);
  const auto type = test_bench.one_of({u8, i8, f16, bf16, f32, f64});
  const auto x = test_bench.loose(type, shape);
  const auto row = shape.size() - static_cast<std::size_t>(test_bench.extent(2, 3));
  shape[row] = test_bench.extent();
  shape[row + 1] = test_bench.extent();
  const auto axis = static_cast<std::int64_t>(row);
  return {.x = x,
          .sizes = {shape[row], shape[row + 1]},
          .axes = {axis, axis + 1},
          .mode = test_bench.one_of(
              {resize_mode::nearest, resize_mode::linear, resize_mode::cubic, resize_mode::area}),
          .y = test_bench.loose(type, shape)};
}

operation_mutations resize_list() {
  mutations_of<resize> mutations(valid_resize);
  mutations.required("x", &resize::x);
  mutations.output("y", &resize::y, i32);
  mutations.aliasing("y", &resize::y, "x", &resize::x);
  for (const auto type : {boolean, u16, i16, i32, u64, c64, c128, e4m3}) {
    mutations.add(
        "x of " + std::string(to_string(type)), bad, "x",
        [type](resize& r, bench& test_bench) { r.x = test_bench.make(type, r.x.value().shape()); });
  }
  mutations.add("x is a row", bad, "x", [](resize& r, bench& test_bench) {
    r.x = test_bench.make(u8, {test_bench.extent()});
  });
  mutations.add("x is a number", bad, "x",
                [](resize& r, bench& test_bench) { r.x = test_bench.make(u8, {1}).select(0, 0); });
  mutations.add("x has no rows", bad, "x", [](resize& r, bench& test_bench) {
    r.x = test_bench.empty(u8, {2, 0, 5});
    r.axes = {1, 2};
  });
  mutations.add("2^62 bytes of scratch memory", bad, "y", [](resize& r, bench& test_bench) {
    r = {.x = test_bench.repeated(f32, {huge, huge / 4}),
         .sizes = {1, 2},
         .antialias = true,
         .y = test_bench.make(f32, {3, 3})};
  });
  mutations.value(&resize::axes, "an axis twice", "axes", extents{1, 1});
  mutations.value(&resize::axes, "three axes", "axes", extents{0, 1, 2});
  mutations.value(&resize::axes, "axis 2^63 - 1", "axes", extents{0, most});
  mutations.value(&resize::scales, "scales beside sizes", "scales", resize::numbers{1, 2});
  for (const auto size : {std::int64_t{0}, std::int64_t{-1}, -most, least}) {
    mutations.value(&resize::sizes, "size " + std::to_string(size), "sizes", extents{2, size});
  }
  mutations.add("size 2^63 - 1", bad, "y", [](resize& r, bench&) {
    r.sizes = {2, most};
    r.y = {};
  });
  mutations.add("y has another row", bad, "y", [](resize& r, bench&) { ++r.sizes[0]; });
  for (const double scale : {1e30, 1e-30, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    mutations.add("scale " + std::to_string(scale), bad, "scales", [scale](resize& r, bench&) {
      r.sizes = {};
      r.scales = {1, scale};
      r.mode = resize_mode::linear;
    });
  }
  const auto values = [&](auto member, const std::string& name, int first) {
    for (const int value : {first, 255}) {
      using type = std::remove_reference_t<decltype(std::declval<resize&>().*member)>;
      mutations.value(member, name + ' ' + std::to_string(value), name, static_cast<type>(value));
    }
  };
  values(&resize::mode, "mode", 4);
  values(&resize::coordinates, "coordinates", 6);
  values(&resize::rounding, "rounding", 4);
  values(&resize::policy, "policy", 3);
  return std::move(mutations).take();
}

grid_sample valid_grid_sample(bench& test_bench) {
  const auto axes = static_cast<std::size_t>(test_bench.extent(2, 3));
  const auto x = test_bench.shape(axes + 2);
  auto grid = x;
  grid[axes + 1] = static_cast<std::int64_t>(axes);
  auto y = x;
  for (std::size_t i = 1; i <= axes; ++i) {
    grid[i] = test_bench.extent();
    y[i + 1] = grid[i];
  }
  const auto type = test_bench.one_of({f16, bf16, f32, f64});
  return {.x = test_bench.loose(type, x),
          .grid = test_bench.loose(test_bench.one_of({f16, bf16, f32, f64}), grid),
          .y = test_bench.loose(type, y)};
}

operation_mutations grid_sample_list() {
  mutations_of<grid_sample> mutations(valid_grid_sample);
  mutations.required("x", &grid_sample::x);
  mutations.required("grid", &grid_sample::grid);
  mutations.output("y", &grid_sample::y, i32);
  mutations.aliasing("y", &grid_sample::y, "x", &grid_sample::x);
  mutations.aliasing("y", &grid_sample::y, "grid", &grid_sample::grid);
  for (const auto type : {boolean, u8, i64, c64, e4m3}) {
    mutations.add("x of " + std::string(to_string(type)), bad, "x",
                  [type](grid_sample& g, bench& test_bench) {
                    g.x = test_bench.make(type, g.x.value().shape());
                  });
    mutations.add("a grid of " + std::string(to_string(type)), bad, "grid",
                  [type](grid_sample& g, bench& test_bench) {
                    g.grid = test_bench.make(type, g.grid.value().shape());
                  });
  }
  mutations.add("x is a row", bad, "x", [](grid_sample& g, bench& test_bench) {
    g.x = test_bench.make(f32, {test_bench.extent()});
  });
  mutations.add("x of four axes", bad, "x", [](grid_sample& g, bench& test_bench) {
    g.x = test_bench.make(f32, test_bench.shape(6));
  });
  mutations.add("x of 2^62 rows", bad, "grid", [](grid_sample& g, bench& test_bench) {
    g.x = test_bench.repeated(f32, {huge, 1, huge / 8, 1});
  });
  mutations.add("a grid of 2^60 positions", bad, "y", [](grid_sample& g, bench& test_bench) {
    g = {.x = test_bench.repeated(f32, {1, huge, 2}),
         .grid = test_bench.repeated(f32, {1, huge, 1})};
  });
  mutations.add("a grid of other images", bad, "grid", [](grid_sample& g, bench& test_bench) {
    auto shape = g.grid.value().shape();
    ++shape[0];
    g.grid = test_bench.make(f32, shape);
  });
  for (const int value : {3, 255}) {
    mutations.value(&grid_sample::mode, "mode " + std::to_string(value), "mode",
                    static_cast<grid_mode>(value));
    mutations.value(&grid_sample::padding, "padding " + std::to_string(value), "padding",
                    static_cast<grid_padding>(value));
  }
  return std::move(mutations).take();
}

}  // namespace

std::vector<operation_mutations> interpolation_mutations() {
  std::vector<operation_mutations> all;
  all.push_back(resize_list());
  all.push_back(grid_sample_list());
  return all;
}

}  // namespace sluice::test
