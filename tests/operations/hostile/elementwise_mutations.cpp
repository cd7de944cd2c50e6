// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/hostile/mutations.hpp"
#include "tests/operations/hostile/scalars.hpp"
#include "tests/operations/hostile/shapes.hpp"

#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/reduce.hpp>

#include <complex>
#include <cstddef>
#include <optional>
#include <vector>

namespace sluice::test {
namespace {

using enum element_type;

cast valid_cast(bench& test_bench) {
  const auto shape = any_shape(test_bench);
  const auto type = test_bench.one_of({boolean, u8, i32, u64, e4m3, e5m2, f32, f64});
  const auto source = test_bench.one_of({u8, i8, u16, i16, i64, e4m3, e5m2, f16, bf16, f32});
  return {.x = test_bench.loose(source, shape),
          .type = type,
          .saturate = test_bench.coin(),
          .y = test_bench.loose(type, shape)};
}

operation_mutations cast_list() {
  mutations_of<cast> mutations(valid_cast);
  mutations.required("x", &cast::x);
  mutations.output("y", &cast::y, c64);
  mutations.aliasing("y", &cast::y, "x", &cast::x);
  add_no_types(mutations);
  mutations.add("neither a type nor y", bad, "type", [](cast& c, bench&) {
    c.type.reset();
    c.y = {};
  });
  for (const auto type : {u8, i8, u16, i16, i32, u32, i64, u64, e4m3, e5m2, f16, bf16, f32, f64}) {
    const std::string name(to_string(type));
    mutations.add("complex numbers as " + name, bad, "type", [type](cast& c, bench& test_bench) {
      c.x = test_bench.loose(test_bench.one_of({c64, c128}), c.x.value().shape());
      c.type = type;
      c.y = {};
    });
    mutations.add("complex numbers into " + name, bad, "y", [type](cast& c, bench& test_bench) {
      const auto shape = c.x.value().shape();
      c.x = test_bench.loose(test_bench.one_of({c64, c128}), shape);
      c.type.reset();
      c.y = test_bench.loose(type, shape);
    });
  }
  mutations.add("2^62 elements that are one", bad, "y", [](cast& c, bench& test_bench) {
    c.x = test_bench.repeated(u8, {std::int64_t{1} << 31U, std::int64_t{1} << 31U});
    c.type = f64;
    c.y = {};
  });
  return std::move(mutations).take();
}

operation_mutations copy_list() {
  mutations_of<strided_copy> mutations([](bench& test_bench) -> strided_copy {
    const auto shape = any_shape(test_bench);
    const auto type = test_bench.one_of({boolean, u8, u16, e4m3, f32, f64, c128});
    return {.x = test_bench.loose(type, shape), .y = test_bench.loose(type, shape)};
  });
  mutations.required("x", &strided_copy::x);
  mutations.output("y", &strided_copy::y, bf16);
  mutations.aliasing("y", &strided_copy::y, "x", &strided_copy::x);
  mutations.add("y is x", bad, "y", [](strided_copy& c, bench&) { c.y = c.x; });
  mutations.add("y is x transposed", bad, "y", [](strided_copy& c, bench& test_bench) {
    c.x = test_bench.make(f32, {4, 4});
    c.y = c.x.value().transposed();
  });
  mutations.add("halves that share a row", bad, "y", [](strided_copy& c, bench& test_bench) {
    const auto memory = test_bench.make(f32, {7, 3});
    c.x = memory.slice(0, 0, 4);
    c.y = memory.slice(0, 3, 7);
  });
  return std::move(mutations).take();
}

affine valid_affine(bench& test_bench) {
  const auto shape = any_shape(test_bench);
  const auto axis = test_bench.extent(0, static_cast<std::int64_t>(shape.size()) - 1);
  const auto channels = shape[static_cast<std::size_t>(axis)];
  const auto type = test_bench.one_of({f16, bf16, f32, f64});
  const auto channel_type = test_bench.one_of({u8, i32, f16, f32, f64});
  return {.x = test_bench.loose(test_bench.one_of({u8, i32, f16, f32, f64}), shape),
          .scale = test_bench.make(channel_type, {channels}),
          .bias = test_bench.make(channel_type, {channels}),
          .axis = test_bench.coin() ? axis : axis - static_cast<std::int64_t>(shape.size()),
          .type = type,
          .y = test_bench.loose(type, shape)};
}
/// The same scale and bias for all elements, in f32.
affine affine_of_numbers(bench& test_bench) {
  const auto shape = any_shape(test_bench);
  return {.x = test_bench.loose(test_bench.one_of({u8, f32}), shape),
          .factor = 2,
          .offset = 0.5,
          .type = f32,
          .y = test_bench.loose(f32, shape)};
}

operation_mutations affine_list() {
  mutations_of<affine> mutations(valid_affine);
  mutations.required("x", &affine::x);
  mutations.memory("scale", &affine::scale);
  mutations.memory("bias", &affine::bias);
  mutations.output("y", &affine::y, i32);
  mutations.aliasing("y", &affine::y, "x", &affine::x);
  mutations.aliasing("y", &affine::y, "scale", &affine::scale);
  mutations.aliasing("y", &affine::y, "bias", &affine::bias);
  for (const auto& [name, member] : {std::pair{"x", &affine::x}, std::pair{"scale", &affine::scale},
                                     std::pair{"bias", &affine::bias}}) {
    mutations.add("complex or 8-bit " + std::string(name), bad, name,
                  [member = member](affine& a, bench& test_bench) {
                    a.*member = test_bench.make(test_bench.one_of({c64, c128, e4m3, e5m2}),
                                                (a.*member).value().shape());
                  });
  }
  for (const auto& [name, member] :
       {std::pair{"scale", &affine::scale}, std::pair{"bias", &affine::bias}}) {
    const std::string text = name;
    mutations.add(text + " of one more channel", bad, name,
                  [member = member](affine& a, bench& test_bench) {
                    a.*member = test_bench.make(f32, {(a.*member).value().shape()[0] + 1});
                  });
    mutations.add(text + " with another dimension", bad, name,
                  [member = member](affine& a, bench& test_bench) {
                    a.*member = test_bench.make(f32, {(a.*member).value().shape()[0], 1});
                  });
    mutations.add(text + " that cannot be broadcast", bad, name,
                  [member = member](affine& a, bench& test_bench) {
                    a = affine_of_numbers(test_bench);
                    a.factor.reset();
                    a.offset.reset();
                    a.*member = test_bench.make(f32, {9});
                  });
    mutations.add(text + " of 2^60 channels", bad, name,
                  [member = member](affine& a, bench& test_bench) {
                    a.*member = test_bench.repeated(f32, {std::int64_t{1} << 60U});
                  });
  }
  mutations.value(&affine::factor, "a factor beside scale", "factor", scalar(2));
  mutations.value(&affine::offset, "an offset beside bias", "offset", scalar(2));
  for (const auto value :
       {std::int64_t{4}, std::int64_t{-5}, std::int64_t{1} << 31U, most, least}) {
    mutations.value(&affine::axis, "axis " + std::to_string(value), "axis", value);
  }
  mutations.add("an axis of a number", bad, "axis", [](affine& a, bench& test_bench) {
    a.x = test_bench.make(f32, {1}).select(0, 0);
    a.axis = 0;
    a.y = {};
  });
  add_no_types(mutations);
  for (const auto type : {boolean, u8, i64, c64, c128, e4m3}) {
    mutations.value(&affine::type, "type " + std::string(to_string(type)), "type", type);
  }
  for (const auto& [name, member] :
       {std::pair{"factor", &affine::factor}, std::pair{"offset", &affine::offset}}) {
    for (const auto& value :
         {scalar(nan), scalar(infinity), scalar(1e300), scalar(std::complex<double>(0, 1)),
          scalar(std::complex<double>(1, nan))}) {
      mutations.add(name + (" is " + value.text()), bad, name,
                    [member = member, value](affine& a, bench& test_bench) {
                      a = affine_of_numbers(test_bench);
                      a.*member = value;
                    });
    }
  }
  return std::move(mutations).take();
}

/// Any function of a family.
template <class Function>
Function any_function(bench& test_bench, std::size_t count) {
  return static_cast<Function>(test_bench.extent(0, static_cast<std::int64_t>(count) - 1));
}

/// The descriptors of all functions of a family.
template <class Operation, class Function>
std::vector<const operation_descriptor*> family_of(std::size_t count) {
  std::vector<const operation_descriptor*> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(&descriptor_of(Operation{.function = static_cast<Function>(i)}));
  }
  return all;
}

binary_function any_arithmetic(bench& test_bench) {
  return test_bench.one_of({binary_function::add, binary_function::subtract,
                            binary_function::multiply, binary_function::divide});
}

operation_mutations binary_list() {
  using Operation = binary;
  mutations_of<Operation> mutations([=](bench& test_bench) {
    const auto shape = any_shape(test_bench);
    const auto type =
        test_bench.one_of({boolean, u8, i8, u16, i16, i32, u64, f16, bf16, f32, f64, c64, c128});
    auto shorter = test_bench.coin() ? shape : extents{shape[shape.size() - 1]};
    if (test_bench.coin()) shorter[0] = 1;
    Operation operation{.function = any_arithmetic(test_bench)};
    operation.a = test_bench.loose(type, shape);
    operation.b = test_bench.loose(type, shorter);
    if (test_bench.coin()) std::swap(operation.a, operation.b);
    operation.y = test_bench.loose(type, shape);
    return operation;
  });
  mutations.required("a", &Operation::a);
  mutations.required("b", &Operation::b);
  mutations.output("y", &Operation::y, u32);
  const auto same = [](bench& test_bench, element_type type, const extents& shape) {
    Operation operation{.function = any_arithmetic(test_bench)};
    operation.a = test_bench.loose(type, shape);
    operation.b = test_bench.loose(type, shape);
    operation.y = test_bench.loose(type, shape);
    return operation;
  };
  mutations.add("b of another type", bad, "b", [same](Operation& o, bench& test_bench) {
    o = same(test_bench, test_bench.one_of({u8, i32, f32, f64}), any_shape(test_bench));
    o.b = test_bench.make(test_bench.one_of({boolean, i64, f16, c64}), o.a.value().shape());
  });
  mutations.add("two numbers", bad, "a, b", [](Operation& o, bench&) {
    o.a = 1;
    o.b = 2.5;
  });
  mutations.add("a number that the type does not hold", bad, "a",
                [same](Operation& o, bench& test_bench) {
                  o = same(test_bench, test_bench.one_of({u8, i32, i64}), any_shape(test_bench));
                  o.a = test_bench.one_of({scalar(1e300), scalar(0.5), scalar(nan)});
                });
  mutations.add("b that cannot be broadcast", bad, "b", [same](Operation& o, bench& test_bench) {
    o = same(test_bench, f32, any_shape(test_bench));
    o.b = test_bench.make(f32, {9});
  });
  mutations.add("b of 2^31 numbers that are one", bad, "b",
                [same](Operation& o, bench& test_bench) {
                  o = same(test_bench, f32, any_shape(test_bench));
                  o.b = test_bench.repeated(f32, {std::int64_t{1} << 31U});
                });
  mutations.add("b without elements", bad, "b", [same](Operation& o, bench& test_bench) {
    o = same(test_bench, f32, any_shape(test_bench));
    o.b = test_bench.empty(f32, {0});
  });
  mutations.add("2^62 sums", bad, "y", [](Operation& o, bench& test_bench) {
    o.a = test_bench.repeated(f32, {std::int64_t{1} << 31U, 1});
    o.b = test_bench.repeated(f32, {1, std::int64_t{1} << 31U});
    o.y = {};
  });
  for (const auto& [name, member] :
       {std::pair{"a", &Operation::a}, std::pair{"b", &Operation::b}}) {
    mutations.add("y shares memory with " + std::string(name), bad, "y",
                  [same, member = member](Operation& o, bench& test_bench) {
                    const auto n = test_bench.extent();
                    o = same(test_bench, f32, {n, 3});
                    const auto memory = test_bench.make(f32, {n + 1, 3});
                    o.*member = memory.slice(0, 0, n);
                    o.y = memory.slice(0, 1, n + 1);
                  });
    mutations.add("y begins with " + std::string(name), bad, "y",
                  [same, member = member](Operation& o, bench& test_bench) {
                    o = same(test_bench, f64, {test_bench.extent(), 3});
                    o.*member = o.y.value().slice(0, 0, 1);
                  });
    mutations.add("y is " + std::string(name) + " transposed", bad, "y",
                  [same, member = member](Operation& o, bench& test_bench) {
                    o = same(test_bench, i32, {3, 3});
                    o.y = (o.*member).value().transposed();
                  });
  }
  mutations.add("complex numbers", bad, "a", [same](Operation& o, bench& test_bench) {
    o = same(test_bench, test_bench.one_of({c64, c128}), any_shape(test_bench));
    o.function = test_bench.one_of({binary_function::maximum, binary_function::less,
                                    binary_function::power, binary_function::bitwise_and});
  });
  mutations.add("bits of real numbers", bad, "a", [same](Operation& o, bench& test_bench) {
    o = same(test_bench, test_bench.one_of({f16, bf16, f32, f64}), any_shape(test_bench));
    o.function = test_bench.one_of({binary_function::bitwise_xor, binary_function::left_shift});
  });
  mutations.add("a comparison into numbers", bad, "y", [same](Operation& o, bench& test_bench) {
    o = same(test_bench, test_bench.one_of({u8, i32, f32}), any_shape(test_bench));
    o.function = test_bench.one_of({binary_function::equal, binary_function::logical_or});
  });
  mutations.value(&binary::function, "no function", "function", std::nullopt);
  mutations.value(&binary::function, "an unknown function", "function",
                  static_cast<binary_function>(binary_function_count));
  return std::move(mutations).take(family_of<binary, binary_function>(binary_function_count));
}

operation_mutations unary_list() {
  mutations_of<unary> mutations([](bench& test_bench) {
    const auto shape = any_shape(test_bench);
    const auto type = test_bench.one_of({f16, bf16, f32, f64});
    unary operation{.function = any_function<unary_function>(test_bench, unary_function_count)};
    // Those that take other types, or have another type of result.
    for (const auto other :
         {unary_function::isnan, unary_function::isinf, unary_function::logical_not,
          unary_function::bitwise_not, unary_function::conjugate, unary_function::angle}) {
      if (operation.function == other) operation.function = unary_function::exp;
    }
    operation.x = test_bench.loose(type, shape);
    operation.y = test_bench.loose(type, shape);
    return operation;
  });
  mutations.required("x", &unary::x);
  mutations.output("y", &unary::y, u32);
  mutations.aliasing("y", &unary::y, "x", &unary::x);
  mutations.value(&unary::function, "no function", "function", std::nullopt);
  mutations.value(&unary::function, "an unknown function", "function",
                  static_cast<unary_function>(unary_function_count));
  mutations.add("the exponential of integers", bad, "x", [](unary& o, bench& test_bench) {
    o = unary{.function = unary_function::exp, .x = test_bench.make(i32, any_shape(test_bench))};
  });
  for (const auto& value :
       {scalar(nan), scalar(infinity), scalar(1e300), scalar(std::complex<double>(0, 1))}) {
    mutations.add("alpha is " + value.text(), bad, "alpha", [value](unary& o, bench& test_bench) {
      o = unary{.function = unary_function::elu,
                .x = test_bench.make(f32, any_shape(test_bench)),
                .alpha = value};
    });
    mutations.add("beta is " + value.text(), bad, "beta", [value](unary& o, bench& test_bench) {
      o = unary{.function = unary_function::selu,
                .x = test_bench.make(f32, any_shape(test_bench)),
                .beta = value};
    });
  }
  for (const auto& value : {scalar(nan), scalar(1e300), scalar(std::complex<double>(0, 1))}) {
    mutations.add("the upper bound is " + value.text(), bad, "most",
                  [value](unary& o, bench& test_bench) {
                    o = clip(test_bench.make(f32, any_shape(test_bench)), -infinity, value);
                  });
  }
  mutations.add("a parameter of a function without one", bad, "alpha",
                [](unary& o, bench& test_bench) {
                  o = unary{.function = unary_function::tanh,
                            .x = test_bench.make(f32, any_shape(test_bench)),
                            .alpha = 1};
                });
  return std::move(mutations).take(family_of<unary, unary_function>(unary_function_count));
}

operation_mutations where_list() {
  mutations_of<where> mutations([](bench& test_bench) -> where {
    const auto shape = any_shape(test_bench);
    const auto type = test_bench.one_of({u8, i16, f16, f32, f64, c64, c128});
    return {.condition = test_bench.loose(boolean, shape),
            .a = test_bench.loose(type, shape),
            .b = test_bench.loose(type, shape),
            .y = test_bench.loose(type, shape)};
  });
  mutations.required("condition", &where::condition);
  mutations.required("a", &where::a);
  mutations.required("b", &where::b);
  mutations.output("y", &where::y, u32);
  mutations.add("two numbers", bad, "a, b", [](where& o, bench&) {
    o.a = 1;
    o.b = 0;
  });
  mutations.add("a number that the type does not hold", bad, "b", [](where& o, bench& test_bench) {
    o.a = test_bench.make(u8, o.y.value().shape());
    o.b = test_bench.one_of({scalar(256), scalar(-1), scalar(0.5), scalar(nan)});
    o.y = {};
  });
  mutations.add("a condition of numbers", bad, "condition", [](where& o, bench& test_bench) {
    o.condition = test_bench.make(u8, o.condition.value().shape());
  });
  mutations.add("a condition that cannot be broadcast", bad, "condition",
                [](where& o, bench& test_bench) { o.condition = test_bench.make(boolean, {9}); });
  mutations.add("b of another type", bad, "b", [](where& o, bench& test_bench) {
    o.b = test_bench.make(bf16, o.b.value().shape());
  });
  return std::move(mutations).take();
}

reduce valid_reduce(bench& test_bench) {
  const auto shape = any_shape(test_bench, 2);
  const auto axis = test_bench.extent(0, static_cast<std::int64_t>(shape.size()) - 1);
  extents remaining;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d != static_cast<std::size_t>(axis)) remaining.push_back(shape[d]);
  }
  struct types {
    reduction kind;
    element_type x;
    element_type y;
  };
  const auto t = test_bench.one_of<types>({{reduction::sum, f32, f32},
                                           {reduction::sum, u8, u64},
                                           {reduction::sum, i32, i64},
                                           {reduction::sum, c64, c64},
                                           {reduction::mean, boolean, f64},
                                           {reduction::mean, f64, f64},
                                           {reduction::max, f32, f32},
                                           {reduction::min, i8, i8},
                                           {reduction::product, u16, u64},
                                           {reduction::product, c128, c128},
                                           {reduction::any, bf16, boolean},
                                           {reduction::all, u32, boolean},
                                           {reduction::l1, i64, i64},
                                           {reduction::l2, f32, f32},
                                           {reduction::sum_of_squares, f64, f64},
                                           {reduction::log_sum, i16, f64},
                                           {reduction::log_sum_exp, f32, f32},
                                           {reduction::variance, f32, f32},
                                           {reduction::argmax, u64, i64},
                                           {reduction::argmin, bf16, i64}});
  return {
      .x = test_bench.loose(t.x, shape),
      .kind = t.kind,
      .axes = extents{test_bench.coin() ? axis : axis - static_cast<std::int64_t>(shape.size())},
      .y = test_bench.loose(t.y, remaining)};
}

operation_mutations reduce_list() {
  mutations_of<reduce> mutations(valid_reduce);
  mutations.required("x", &reduce::x);
  mutations.output("y", &reduce::y, f16);
  mutations.aliasing("y", &reduce::y, "x", &reduce::x);
  const auto add_axes = [&](const std::string& description, const extents& axes) {
    mutations.value(&reduce::axes, description, "axes", axes);
  };
  for (const auto value :
       {std::int64_t{4}, std::int64_t{-5}, std::int64_t{1} << 31U, most, least}) {
    add_axes("axis " + std::to_string(value), {value});
    add_axes("axes 0 and " + std::to_string(value), {0, value});
  }
  add_axes("axis 1 twice", {1, 1});
  add_axes("eight times axis 0", {0, 0, 0, 0, 0, 0, 0, 0});
  mutations.add("one axis from both ends", bad, "axes", [](reduce& r, bench&) {
    r.axes = extents{0, -static_cast<std::int64_t>(r.x.value().rank())};
  });
  mutations.add("an axis of a number", bad, "axes", [](reduce& r, bench& test_bench) {
    r.x = test_bench.make(f32, {1}).select(0, 0);
    r.axes = extents{0};
    r.y = {};
  });
  for (const int value : {reduction_count, 255}) {
    mutations.value(&reduce::kind, "kind " + std::to_string(value), "kind",
                    static_cast<reduction>(value));
    mutations.add("kind " + std::to_string(value) + " of a new y", bad, "kind",
                  [value](reduce& r, bench&) {
                    r.kind = static_cast<reduction>(value);
                    r.y = {};
                  });
  }
  for (const auto kind : {reduction::max, reduction::any, reduction::l1, reduction::argmin}) {
    mutations.add("kind " + std::to_string(static_cast<int>(kind)) + " of complex numbers", bad,
                  "x", [kind](reduce& r, bench& test_bench) {
                    r.x = test_bench.make(test_bench.one_of({c64, c128}), r.x.value().shape());
                    r.kind = kind;
                  });
  }
  const auto add_parameter = [&](const std::string& description, const std::string& argument,
                                 reduction kind, auto spoil) {
    mutations.add(description, bad, argument, [kind, spoil](reduce& r, bench& test_bench) {
      r.x = test_bench.make(test_bench.one_of({u8, i64, f16, f64}), r.x.value().shape());
      r.kind = kind;
      r.y = {};
      spoil(r);
    });
  };
  for (const auto value : {std::int64_t{-1}, least}) {
    add_parameter("correction " + std::to_string(value), "correction", reduction::variance,
                  [value](reduce& r) { r.correction = value; });
  }
  add_parameter("a correction of a mean", "correction", reduction::mean,
                [](reduce& r) { r.correction = 1; });
  add_parameter("the last of a sum", "last", reduction::sum, [](reduce& r) { r.last = true; });
  for (const auto kind : {reduction::mean, reduction::max, reduction::min, reduction::variance,
                          reduction::argmax, reduction::argmin}) {
    mutations.add("kind " + std::to_string(static_cast<int>(kind)) + " of nothing", bad, "x",
                  [kind](reduce& r, bench& test_bench) {
                    r = {.x = test_bench.empty(f32, {test_bench.extent(), 0}),
                         .kind = kind,
                         .axes = extents{1}};
                  });
  }
  mutations.add("dimensions that should have gone", bad, "y",
                [](reduce& r, bench&) { r.keep_dims = true; });
  mutations.add("2^62 sums of one element", bad, "y", [](reduce& r, bench& test_bench) {
    r = {.x = test_bench.repeated(u8, {std::int64_t{1} << 31U, std::int64_t{1} << 31U, 1}),
         .axes = extents{2}};
  });
  return std::move(mutations).take();
}

}  // namespace

std::vector<operation_mutations> elementwise_mutations() {
  std::vector<operation_mutations> all;
  all.push_back(cast_list());
  all.push_back(copy_list());
  all.push_back(affine_list());
  all.push_back(binary_list());
  all.push_back(unary_list());
  all.push_back(where_list());
  all.push_back(reduce_list());
  return all;
}

}  // namespace sluice::test
