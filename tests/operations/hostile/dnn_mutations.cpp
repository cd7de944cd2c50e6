// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/hostile/mutations.hpp"

#include <sluice/operations/dnn.hpp>

namespace sluice::test {
namespace {

using enum element_type;

conv2d valid_conv2d(bench& test_bench) {
  const auto groups = test_bench.extent(1, 2);
  const auto channels = groups * test_bench.extent(2, 3);
  const auto filters = groups * test_bench.extent(2, 3);
  const extents x{test_bench.extent(), channels, test_bench.extent(5, 7), test_bench.extent(5, 7)};
  const extents w{filters, channels / groups, test_bench.extent(2, 3), test_bench.extent(2, 3)};
  const conv2d_geometry geometry{
      .padding = {.h = test_bench.extent(0, 1), .w = test_bench.extent(0, 1)},
      .stride = {.h = test_bench.extent(1, 2), .w = test_bench.extent(1, 2)},
      .groups = groups};
  return {.x = test_bench.make(f32, x),
          .w = test_bench.make(f32, w),
          .bias = test_bench.make(f32, {filters}),
          .y = test_bench.make(f32, conv2d_output_shape(x, w, geometry)),
          .geometry = geometry,
          .activation = test_bench.one_of({activation::none, activation::relu}),
          .math = test_bench.one_of({math_mode::f32, math_mode::tf32})};
}

/// Adds wrong values of one number of the geometry.
template <class Member>
void add_geometry(mutations_of<conv2d>& mutations, const std::string& name, Member member,
                  std::initializer_list<std::int64_t> values) {
  for (const auto value : values) {
    mutations.add(name + " is " + std::to_string(value), bad, "geometry." + name,
                  [member, value](conv2d& c, bench&) { member(c.geometry) = value; });
  }
}

void add_geometry(mutations_of<conv2d>& mutations) {
  using geometry = conv2d_geometry;
  add_geometry(mutations, "padding.h", [](geometry & g) -> auto& { return g.padding.h; },
               {-1, least, most, most / 2});
  add_geometry(mutations, "padding.w", [](geometry & g) -> auto& { return g.padding.w; },
               {-1, least, most, most / 2});
  add_geometry(mutations, "stride.h", [](geometry & g) -> auto& { return g.stride.h; },
               {0, -1, least});
  add_geometry(mutations, "stride.w", [](geometry & g) -> auto& { return g.stride.w; },
               {0, -1, least});
  // Also a dilation that overflows the size of the filters, which have at least two taps.
  add_geometry(mutations, "dilation.h", [](geometry & g) -> auto& { return g.dilation.h; },
               {0, -1, least});
  add_geometry(mutations, "dilation.w", [](geometry & g) -> auto& { return g.dilation.w; },
               {0, -1, least});
  add_geometry(mutations, "groups", [](geometry & g) -> auto& { return g.groups; },
               {0, -1, least, 7, std::int64_t{1} << 31U, most});
  const auto add = [&](const std::string& description, const std::string& argument, auto spoil) {
    mutations.add(description, bad, argument, [spoil](conv2d& c, bench&) { spoil(c); });
  };
  add("a dilation of 2^31 rows", "w",
      [](conv2d& c) { c.geometry.dilation.h = std::int64_t{1} << 31U; });
  add("a dilation of 2^62 columns", "w",
      [](conv2d& c) { c.geometry.dilation.w = (std::int64_t{1} << 62U) - 1; });
  mutations.add("a dilation of 2^63 - 1 rows", bad, "geometry.dilation.h",
                [](conv2d& c, bench& test_bench) {
                  c.w = test_bench.make(f32, {2, c.x.value().shape()[1] / c.geometry.groups, 3, 2});
                  c.geometry.dilation.h = most;
                });
  add("y of 2^61 rows is too large", "y", [](conv2d& c) {
    c.geometry.padding.h = std::int64_t{1} << 61U;
    c.y = {};
  });
  add("twice as many groups", "geometry.groups", [](conv2d& c) { c.geometry.groups *= 100; });
}

operation_mutations conv2d_mutations() {
  mutations_of<conv2d> mutations(valid_conv2d);
  mutations.required("x", &conv2d::x);
  mutations.required("w", &conv2d::w);
  mutations.memory("bias", &conv2d::bias);
  mutations.output("y", &conv2d::y, c64);
  mutations.aliasing("y", &conv2d::y, "x", &conv2d::x);
  mutations.aliasing("y", &conv2d::y, "w", &conv2d::w);
  mutations.aliasing("y", &conv2d::y, "bias", &conv2d::bias);
  for (const auto& [name, member] :
       {std::pair{"x", &conv2d::x}, std::pair{"w", &conv2d::w}, std::pair{"bias", &conv2d::bias}}) {
    const std::string text = name;
    for (const auto type : {u8, i32, f16, f64, c64}) {
      mutations.add(text + " of " + std::string(to_string(type)), bad, text,
                    [member = member, type](conv2d& c, bench& test_bench) {
                      c.*member = test_bench.make(type, (c.*member).value().shape());
                    });
    }
    mutations.add(text + " with another dimension", bad, text,
                  [member = member](conv2d& c, bench& test_bench) {
                    auto shape = (c.*member).value().shape();
                    shape.push_back(1);
                    c.*member = test_bench.make(f32, shape);
                  });
    mutations.add(text + " is a number", bad, text,
                  [member = member](conv2d& c, bench& test_bench) {
                    c.*member = test_bench.make(f32, {1}).select(0, 0);
                  });
  }
  mutations.add("a bias for one more filter", bad, "bias", [](conv2d& c, bench& test_bench) {
    c.bias = test_bench.make(f32, {c.w.value().shape()[0] + 1});
  });
  mutations.add("a bias for 2^61 filters", bad, "bias", [](conv2d& c, bench& test_bench) {
    c.bias = test_bench.repeated(f32, {(std::int64_t{1} << 61U) - 1});
  });
  mutations.add("filters of one more channel", bad, "w", [](conv2d& c, bench& test_bench) {
    const auto s = c.w.value().shape();
    c.w = test_bench.make(f32, {s[0], s[1] + 1, s[2], s[3]});
  });
  mutations.add("filters without taps", bad, "w", [](conv2d& c, bench& test_bench) {
    const auto s = c.w.value().shape();
    c.w = test_bench.empty(f32, {s[0], s[1], 0, s[3]});
  });
  mutations.add("filters wider than x", bad, "w", [](conv2d& c, bench& test_bench) {
    const auto s = c.w.value().shape();
    c.w = test_bench.make(f32, {s[0], s[1], s[2], 10});
  });
  mutations.add("filters of 2^62 rows without elements", bad, "w",
                [](conv2d& c, bench& test_bench) {
                  const auto s = c.w.value().shape();
                  c.w = test_bench.empty(f32, {0, s[1], std::int64_t{1} << 62U, s[3]});
                  c.bias = {};
                });
  mutations.add("2^40 images that are one", errc::out_of_memory, "x",
                [](conv2d& c, bench& test_bench) {
                  const auto s = c.x.value().shape();
                  c.x = test_bench.repeated(f32, {std::int64_t{1} << 40U, s[1], s[2], s[3]});
                  c.y = {};
                });
  mutations.add("a new y of 2^40 rows", errc::out_of_memory, "y", [](conv2d& c, bench&) {
    c.geometry.padding.h = std::int64_t{1} << 40U;
    c.y = {};
  });
  add_geometry(mutations);
  for (const int value : {2, 255}) {
    mutations.value(&conv2d::activation, "activation " + std::to_string(value), "activation",
                    static_cast<activation>(value));
    mutations.value(&conv2d::math, "math " + std::to_string(value), "math",
                    static_cast<math_mode>(value));
  }
  return std::move(mutations).take();
}

}  // namespace

std::vector<operation_mutations> dnn_mutations() {
  std::vector<operation_mutations> all;
  all.push_back(conv2d_mutations());
  return all;
}

}  // namespace sluice::test
