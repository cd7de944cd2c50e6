// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/hostile/mutations.hpp"

#include <sluice/operations/convolution.hpp>
#include <sluice/operations/dnn.hpp>

#include <cstddef>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

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
          .math = test_bench.one_of({math_mode::f32, math_mode::tf32}),
          .residual = test_bench.make(f32, conv2d_output_shape(x, w, geometry))};
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
  add_geometry(mutations, "padding_after.h",
               [](geometry & g) -> auto& { return g.padding_after.emplace(g.padding).h; },
               {-1, least, most});
  add_geometry(mutations, "padding_after.w",
               [](geometry & g) -> auto& { return g.padding_after.emplace(g.padding).w; },
               {-1, least, most});
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

/// What is wrong with the operands of any convolution.
template <class Operation>
void add_convolution_operands(mutations_of<Operation>& mutations) {
  mutations.required("x", &Operation::x);
  mutations.required("w", &Operation::w);
  mutations.memory("bias", &Operation::bias);
  mutations.memory("residual", &Operation::residual);
  mutations.output("y", &Operation::y, c64);
  for (const auto& [name, member] :
       {std::pair{"x", &Operation::x}, std::pair{"w", &Operation::w},
        std::pair{"bias", &Operation::bias}, std::pair{"residual", &Operation::residual}}) {
    const std::string text = name;
    mutations.aliasing("y", &Operation::y, name, member);
    for (const auto type : {u8, i32, f64, c64, e4m3}) {
      mutations.add(text + " of " + std::string(to_string(type)), bad, text,
                    [member = member, type](Operation& c, bench& test_bench) {
                      c.*member = test_bench.make(type, (c.*member).value().shape());
                    });
    }
    mutations.add(text + " is a number", bad, text,
                  [member = member](Operation& c, bench& test_bench) {
                    c.*member = test_bench.make(f32, {1}).select(0, 0);
                  });
    // The number of dimensions of X is that of the lists.
    const bool has_lists = !std::is_same_v<Operation, conv2d>;
    if (has_lists && text == "x") continue;
    mutations.add(text + " with another dimension", bad, text,
                  [member = member](Operation& c, bench& test_bench) {
                    auto shape = (c.*member).value().shape();
                    shape.push_back(1);
                    c.*member = test_bench.make(f32, shape);
                    c.y = {};
                  });
  }
  mutations.add("a residual of another image", bad, "residual",
                [](Operation& c, bench& test_bench) {
                  auto shape = c.residual.value().shape();
                  ++shape[0];
                  c.residual = test_bench.make(f32, shape);
                });
  for (const int value : {7, 255}) {
    mutations.value(&Operation::activation, "activation " + std::to_string(value), "activation",
                    static_cast<activation>(value));
    mutations.value(&Operation::math, "math " + std::to_string(value), "math",
                    static_cast<math_mode>(value));
  }
}

operation_mutations conv2d_mutations() {
  mutations_of<conv2d> mutations(valid_conv2d);
  add_convolution_operands(mutations);
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
                  c.residual = c.y = {};
                });
  mutations.add("a new y of 2^40 rows", errc::out_of_memory, "y", [](conv2d& c, bench&) {
    c.geometry.padding.h = std::int64_t{1} << 40U;
    c.residual = c.y = {};
  });
  add_geometry(mutations);
  return std::move(mutations).take();
}

/// A request over one to three dimensions, with small operands: the pool keeps their memory.
template <class Operation>
Operation valid_convolution(bench& test_bench) {
  constexpr bool is_transposed = std::is_same_v<Operation, transposed_convolution>;
  const auto rank = test_bench.extent(1, 3);
  const auto groups = test_bench.extent(1, 2);
  const auto inputs = test_bench.extent(2, 3);
  const auto outputs = test_bench.extent(2, 3);
  Operation c{.groups = groups,
              .activation = test_bench.one_of({activation::none, activation::silu}),
              .math = test_bench.one_of({math_mode::f32, math_mode::tf32})};
  extents x{2, groups * inputs};
  extents w = is_transposed ? extents{groups * inputs, outputs} : extents{groups * outputs, inputs};
  extents y{x[0], groups * outputs};
  for (std::int64_t i = 0; i < rank; ++i) {
    x.push_back(4);
    w.push_back(2);
    c.strides.push_back(rank == 3 ? 1 : test_bench.extent(1, 2));
    c.dilation.push_back(1);
    c.before.push_back(test_bench.extent(0, 1));
    c.after.push_back(test_bench.extent(0, 1));
    const auto padding = c.before[c.before.size() - 1] + c.after[c.after.size() - 1];
    const auto stride = c.strides[c.strides.size() - 1];
    const auto extent = x[x.size() - 1], taps = w[w.size() - 1];
    y.push_back(is_transposed ? stride * (extent - 1) + taps - padding
                              : (extent + padding - taps) / stride + 1);
    if constexpr (is_transposed) c.output_padding.push_back(0);
  }
  c.x = test_bench.make(f32, x);
  c.w = test_bench.make(f32, w);
  c.bias = test_bench.make(f32, {y[1]});
  c.residual = test_bench.make(f32, y);
  c.y = test_bench.make(f32, y);
  return c;
}

/// Lists that do not fit, and numbers out of range.
template <class Operation>
void add_list(mutations_of<Operation>& mutations, const std::string& name,
              extents Operation::*member, std::initializer_list<std::int64_t> values) {
  mutations.add(name + " of one more number", bad, name,
                [member](Operation& c, bench&) { (c.*member).push_back(1); });
  for (const auto value : values) {
    mutations.add(name + " with " + std::to_string(value), bad, name,
                  [member, value](Operation& c, bench&) { (c.*member)[0] = value; });
  }
}

template <class Operation>
operation_mutations convolution_mutations_of() {
  mutations_of<Operation> mutations(valid_convolution<Operation>);
  add_convolution_operands(mutations);
  add_list(mutations, "strides", &Operation::strides, {0, -1, least});
  add_list(mutations, "before", &Operation::before, {-1, least, most});
  add_list(mutations, "after", &Operation::after, {-1, least, most});
  add_list(mutations, "dilation", &Operation::dilation, {0, -1, least});
  for (const auto value : {std::int64_t{0}, std::int64_t{-1}, least, std::int64_t{7}, most}) {
    mutations.value(&Operation::groups, "groups " + std::to_string(value), "groups", value);
  }
  mutations.add("x of six dimensions", bad, "x", [](Operation& c, bench& test_bench) {
    c.x = test_bench.make(f32, {1, 2, 2, 2, 2, 2});
  });
  mutations.add("x of two dimensions", bad, "x", [](Operation& c, bench& test_bench) {
    c.x = test_bench.make(f32, {2, 4});
  });
  mutations.add("filters without taps", bad, "w", [](Operation& c, bench& test_bench) {
    auto shape = c.w.value().shape();
    shape[2] = 0;
    c.w = test_bench.empty(f32, shape);
  });
  if constexpr (std::is_same_v<Operation, transposed_convolution>) {
    add_list(mutations, "output_padding", &Operation::output_padding, {-1, least, most, 9});
    mutations.add("a stride that overflows y", bad, "strides",
                  [](Operation& c, bench&) { c.strides[0] = most; });
    mutations.add("padding that cuts off all of y", bad, "before",
                  [](Operation& c, bench&) { c.before[0] = 1000; });
    mutations.add("no elements along a dimension", bad, "x", [](Operation& c, bench& test_bench) {
      auto shape = c.x.value().shape();
      shape[2] = 0;
      c.x = test_bench.empty(f32, shape);
    });
  }
  return std::move(mutations).take();
}

integer_convolution valid_integers(bench& test_bench) {
  const auto x_type = test_bench.one_of({u8, i8});
  const auto w_type = test_bench.one_of({u8, i8});
  return {.x = test_bench.make(x_type, {2, 4, 6, 5}),
          .w = test_bench.make(w_type, {6, 2, 3, 2}),
          .x_zero_point = test_bench.make(x_type, {1}),
          .w_zero_point = test_bench.make(w_type, {6}),
          .y = test_bench.make(i32, {2, 6, 4, 4}),
          .strides = {1, 1},
          .before = {0, 0},
          .after = {0, 0},
          .dilation = {1, 1},
          .groups = 2};
}

operation_mutations integer_mutations() {
  using self = integer_convolution;
  mutations_of<self> mutations(valid_integers);
  mutations.required("x", &self::x);
  mutations.required("w", &self::w);
  mutations.memory("x_zero_point", &self::x_zero_point);
  mutations.memory("w_zero_point", &self::w_zero_point);
  mutations.output("y", &self::y, f32);
  for (const auto& [name, member] : {std::pair{"x", &self::x}, std::pair{"w", &self::w},
                                     std::pair{"x_zero_point", &self::x_zero_point},
                                     std::pair{"w_zero_point", &self::w_zero_point}}) {
    for (const auto type : {i16, i32, f32, c64, e4m3}) {
      mutations.add(std::string(name) + " of " + std::string(to_string(type)), bad, name,
                    [member = member, type](self& c, bench& test_bench) {
                      c.*member = test_bench.make(type, (c.*member).value().shape());
                    });
    }
    if (std::string(name) == "x") continue;  // its number of dimensions is that of the lists
    mutations.add(std::string(name) + " with another dimension", bad, name,
                  [member = member](self& c, bench& test_bench) {
                    auto shape = (c.*member).value().shape();
                    shape.push_back(2);
                    c.*member = test_bench.make((c.*member).value().type(), shape);
                    c.y = {};
                  });
  }
  add_list(mutations, "strides", &self::strides, {0, -1, least});
  add_list(mutations, "before", &self::before, {-1, least, most});
  add_list(mutations, "after", &self::after, {-1, least, most});
  add_list(mutations, "dilation", &self::dilation, {0, -1, least});
  for (const auto value : {std::int64_t{0}, std::int64_t{-1}, least, std::int64_t{7}, most}) {
    mutations.value(&self::groups, "groups " + std::to_string(value), "groups", value);
  }
  return std::move(mutations).take();
}

}  // namespace

std::vector<operation_mutations> convolution_mutations() {
  std::vector<operation_mutations> all;
  all.push_back(conv2d_mutations());
  all.push_back(convolution_mutations_of<convolution>());
  all.push_back(convolution_mutations_of<transposed_convolution>());
  all.push_back(integer_mutations());
  return all;
}

}  // namespace sluice::test
