// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/hostile/mutations.hpp"
#include "tests/operations/hostile/scalars.hpp"
#include "tests/operations/hostile/shapes.hpp"

#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/reduce.hpp>
#include <sluice/operations/resize.hpp>

namespace sluice::test {
namespace {

using enum element_type;

cast valid_cast(bench& on) {
  const auto shape = any_shape(on);
  const auto type = on.one_of({boolean, u8, i32, u64, f32, f64});
  return {.x = on.loose(on.one_of({u8, i8, u16, i64, f16, bf16, f32}), shape),
          .type = type,
          .y = on.loose(type, shape)};
}

operation_mutations cast_list() {
  mutations_of<cast> to(valid_cast);
  to.required("x", &cast::x);
  to.output("y", &cast::y, c64);
  to.aliasing("y", &cast::y, "x", &cast::x);
  add_no_types(to);
  to.add("neither a type nor y", bad, "type", [](cast& c, bench&) {
    c.type.reset();
    c.y = {};
  });
  for (const auto type : {u8, i8, u16, i32, u32, i64, u64, f16, bf16, f32, f64}) {
    const std::string name(to_string(type));
    to.add("complex numbers as " + name, bad, "type", [type](cast& c, bench& on) {
      c.x = on.loose(on.one_of({c64, c128}), c.x.value().shape());
      c.type = type;
      c.y = {};
    });
    to.add("complex numbers into " + name, bad, "y", [type](cast& c, bench& on) {
      const auto shape = c.x.value().shape();
      c.x = on.loose(on.one_of({c64, c128}), shape);
      c.type.reset();
      c.y = on.loose(type, shape);
    });
  }
  to.add("2^62 elements that are one", bad, "y", [](cast& c, bench& on) {
    c.x = on.repeated(u8, {std::int64_t{1} << 31U, std::int64_t{1} << 31U});
    c.type = f64;
    c.y = {};
  });
  return std::move(to).take();
}

operation_mutations copy_list() {
  mutations_of<strided_copy> to([](bench& on) -> strided_copy {
    const auto shape = any_shape(on);
    const auto type = on.one_of({boolean, u8, u16, f32, f64, c128});
    return {.x = on.loose(type, shape), .y = on.loose(type, shape)};
  });
  to.required("x", &strided_copy::x);
  to.output("y", &strided_copy::y, bf16);
  to.aliasing("y", &strided_copy::y, "x", &strided_copy::x);
  to.add("y is x", bad, "y", [](strided_copy& c, bench&) { c.y = c.x; });
  to.add("y is x transposed", bad, "y", [](strided_copy& c, bench& on) {
    c.x = on.make(f32, {4, 4});
    c.y = c.x.value().transposed();
  });
  to.add("halves that share a row", bad, "y", [](strided_copy& c, bench& on) {
    const auto memory = on.make(f32, {7, 3});
    c.x = memory.slice(0, 0, 4);
    c.y = memory.slice(0, 3, 7);
  });
  return std::move(to).take();
}

affine valid_affine(bench& on) {
  const auto shape = any_shape(on);
  const auto axis = on.extent(0, static_cast<std::int64_t>(shape.size()) - 1);
  const auto channels = shape[static_cast<std::size_t>(axis)];
  const auto type = on.one_of({f16, bf16, f32, f64});
  const auto channel_type = on.one_of({u8, i32, f16, f32, f64});
  return {.x = on.loose(on.one_of({u8, i32, f16, f32, f64}), shape),
          .scale = on.make(channel_type, {channels}),
          .bias = on.make(channel_type, {channels}),
          .axis = on.coin() ? axis : axis - static_cast<std::int64_t>(shape.size()),
          .type = type,
          .y = on.loose(type, shape)};
}
/// The same scale and bias for all elements, in f32.
affine affine_of_numbers(bench& on) {
  const auto shape = any_shape(on);
  return {.x = on.loose(on.one_of({u8, f32}), shape),
          .factor = 2,
          .offset = 0.5,
          .type = f32,
          .y = on.loose(f32, shape)};
}

operation_mutations affine_list() {
  mutations_of<affine> to(valid_affine);
  to.required("x", &affine::x);
  to.memory("scale", &affine::scale);
  to.memory("bias", &affine::bias);
  to.output("y", &affine::y, i32);
  to.aliasing("y", &affine::y, "x", &affine::x);
  to.aliasing("y", &affine::y, "scale", &affine::scale);
  to.aliasing("y", &affine::y, "bias", &affine::bias);
  for (const auto& [name, member] : {std::pair{"x", &affine::x}, std::pair{"scale", &affine::scale},
                                     std::pair{"bias", &affine::bias}}) {
    to.add("complex " + std::string(name), bad, name, [member = member](affine& a, bench& on) {
      a.*member = on.make(on.one_of({c64, c128}), (a.*member).value().shape());
    });
  }
  for (const auto& [name, member] :
       {std::pair{"scale", &affine::scale}, std::pair{"bias", &affine::bias}}) {
    const std::string text = name;
    to.add(text + " of one more channel", bad, name, [member = member](affine& a, bench& on) {
      a.*member = on.make(f32, {(a.*member).value().shape()[0] + 1});
    });
    to.add(text + " with another dimension", bad, name, [member = member](affine& a, bench& on) {
      a.*member = on.make(f32, {(a.*member).value().shape()[0], 1});
    });
    to.add(text + " that cannot be broadcast", bad, name, [member = member](affine& a, bench& on) {
      a = affine_of_numbers(on);
      a.factor.reset();
      a.offset.reset();
      a.*member = on.make(f32, {9});
    });
    to.add(text + " of 2^60 channels", bad, name, [member = member](affine& a, bench& on) {
      a.*member = on.repeated(f32, {std::int64_t{1} << 60U});
    });
  }
  to.value(&affine::factor, "a factor beside scale", "factor", scalar(2));
  to.value(&affine::offset, "an offset beside bias", "offset", scalar(2));
  for (const auto value :
       {std::int64_t{4}, std::int64_t{-5}, std::int64_t{1} << 31U, most, least}) {
    to.value(&affine::axis, "axis " + std::to_string(value), "axis", value);
  }
  to.add("an axis of a number", bad, "axis", [](affine& a, bench& on) {
    a.x = on.make(f32, {1}).select(0, 0);
    a.axis = 0;
    a.y = {};
  });
  add_no_types(to);
  for (const auto type : {boolean, u8, i64, c64, c128}) {
    to.value(&affine::type, "type " + std::string(to_string(type)), "type", type);
  }
  for (const auto& [name, member] :
       {std::pair{"factor", &affine::factor}, std::pair{"offset", &affine::offset}}) {
    for (const auto& value :
         {scalar(nan), scalar(infinity), scalar(1e300), scalar(std::complex<double>(0, 1)),
          scalar(std::complex<double>(1, nan))}) {
      to.add(name + (" is " + value.text()), bad, name,
             [member = member, value](affine& a, bench& on) {
               a = affine_of_numbers(on);
               a.*member = value;
             });
    }
  }
  return std::move(to).take();
}

template <class Operation>
operation_mutations binary_list(bool takes_complex) {
  mutations_of<Operation> to([=](bench& on) {
    const auto shape = any_shape(on);
    const auto type =
        takes_complex ? on.one_of({boolean, u8, i8, u16, i32, u64, f16, bf16, f32, f64, c64, c128})
                      : on.one_of({boolean, u8, i8, u16, i32, u64, f16, bf16, f32, f64});
    auto shorter = on.coin() ? shape : extents{shape[shape.size() - 1]};
    if (on.coin()) shorter[0] = 1;
    Operation made;
    made.a = on.loose(type, shape);
    made.b = on.loose(type, shorter);
    if (on.coin()) std::swap(made.a, made.b);
    made.y = on.loose(type, shape);
    return made;
  });
  to.required("a", &Operation::a);
  to.required("b", &Operation::b);
  to.output("y", &Operation::y, u32);
  const auto same = [](bench& on, element_type type, const extents& shape) {
    Operation made;
    made.a = on.loose(type, shape);
    made.b = on.loose(type, shape);
    made.y = on.loose(type, shape);
    return made;
  };
  to.add("b of another type", bad, "b", [same](Operation& o, bench& on) {
    o = same(on, on.one_of({u8, i32, f32, f64}), any_shape(on));
    o.b = on.make(on.one_of({boolean, i64, f16, c64}), o.a.value().shape());
  });
  to.add("b that cannot be broadcast", bad, "b", [same](Operation& o, bench& on) {
    o = same(on, f32, any_shape(on));
    o.b = on.make(f32, {9});
  });
  to.add("b of 2^31 numbers that are one", bad, "b", [same](Operation& o, bench& on) {
    o = same(on, f32, any_shape(on));
    o.b = on.repeated(f32, {std::int64_t{1} << 31U});
  });
  to.add("b without elements", bad, "b", [same](Operation& o, bench& on) {
    o = same(on, f32, any_shape(on));
    o.b = on.empty(f32, {0});
  });
  to.add("2^62 sums", bad, "y", [](Operation& o, bench& on) {
    o.a = on.repeated(f32, {std::int64_t{1} << 31U, 1});
    o.b = on.repeated(f32, {1, std::int64_t{1} << 31U});
    o.y = {};
  });
  for (const auto& [name, member] :
       {std::pair{"a", &Operation::a}, std::pair{"b", &Operation::b}}) {
    to.add("y shares memory with " + std::string(name), bad, "y",
           [same, member = member](Operation& o, bench& on) {
             const auto n = on.extent();
             o = same(on, f32, {n, 3});
             const auto memory = on.make(f32, {n + 1, 3});
             o.*member = memory.slice(0, 0, n);
             o.y = memory.slice(0, 1, n + 1);
           });
    to.add("y begins with " + std::string(name), bad, "y",
           [same, member = member](Operation& o, bench& on) {
             o = same(on, f64, {on.extent(), 3});
             o.*member = o.y.value().slice(0, 0, 1);
           });
    to.add("y is " + std::string(name) + " transposed", bad, "y",
           [same, member = member](Operation& o, bench& on) {
             o = same(on, i32, {3, 3});
             o.y = (o.*member).value().transposed();
           });
  }
  if (!takes_complex) {
    to.add("complex numbers", bad, "a", [same](Operation& o, bench& on) {
      o = same(on, on.one_of({c64, c128}), any_shape(on));
    });
  }
  return std::move(to).take();
}

reduce valid_reduce(bench& on) {
  const auto shape = any_shape(on, 2);
  const auto axis = on.extent(0, static_cast<std::int64_t>(shape.size()) - 1);
  extents remaining;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d != static_cast<std::size_t>(axis)) remaining.push_back(shape[d]);
  }
  struct types {
    reduction kind;
    element_type x;
    element_type y;
  };
  const auto t = on.one_of<types>({{reduction::sum, f32, f32},
                                   {reduction::sum, u8, u64},
                                   {reduction::sum, i32, i64},
                                   {reduction::sum, c64, c64},
                                   {reduction::mean, boolean, f64},
                                   {reduction::mean, f64, f64},
                                   {reduction::max, f32, f32},
                                   {reduction::max, i8, i8}});
  return {.x = on.loose(t.x, shape),
          .kind = t.kind,
          .axes = extents{on.coin() ? axis : axis - static_cast<std::int64_t>(shape.size())},
          .y = on.loose(t.y, remaining)};
}

operation_mutations reduce_list() {
  mutations_of<reduce> to(valid_reduce);
  to.required("x", &reduce::x);
  to.output("y", &reduce::y, f16);
  to.aliasing("y", &reduce::y, "x", &reduce::x);
  const auto add_axes = [&](const std::string& what, const extents& axes) {
    to.value(&reduce::axes, what, "axes", axes);
  };
  for (const auto value :
       {std::int64_t{4}, std::int64_t{-5}, std::int64_t{1} << 31U, most, least}) {
    add_axes("axis " + std::to_string(value), {value});
    add_axes("axes 0 and " + std::to_string(value), {0, value});
  }
  add_axes("axis 1 twice", {1, 1});
  add_axes("eight times axis 0", {0, 0, 0, 0, 0, 0, 0, 0});
  to.add("one axis from both ends", bad, "axes", [](reduce& r, bench&) {
    r.axes = extents{0, -static_cast<std::int64_t>(r.x.value().rank())};
  });
  to.add("an axis of a number", bad, "axes", [](reduce& r, bench& on) {
    r.x = on.make(f32, {1}).select(0, 0);
    r.axes = extents{0};
    r.y = {};
  });
  for (const int value : {3, 255}) {
    to.value(&reduce::kind, "kind " + std::to_string(value), "kind", static_cast<reduction>(value));
    to.add("kind " + std::to_string(value) + " of a new y", bad, "kind",
           [value](reduce& r, bench&) {
             r.kind = static_cast<reduction>(value);
             r.y = {};
           });
  }
  to.add("the largest complex number", bad, "x", [](reduce& r, bench& on) {
    r.x = on.make(on.one_of({c64, c128}), r.x.value().shape());
    r.kind = reduction::max;
  });
  for (const auto kind : {reduction::mean, reduction::max}) {
    to.add(std::string(kind == reduction::mean ? "mean" : "max") + " of nothing", bad, "x",
           [kind](reduce& r, bench& on) {
             r = {.x = on.empty(f32, {on.extent(), 0}), .kind = kind, .axes = extents{1}};
           });
  }
  to.add("dimensions that should have gone", bad, "y",
         [](reduce& r, bench&) { r.keep_dims = true; });
  to.add("2^62 sums of one element", bad, "y", [](reduce& r, bench& on) {
    r = {.x = on.repeated(u8, {std::int64_t{1} << 31U, std::int64_t{1} << 31U, 1}),
         .axes = extents{2}};
  });
  return std::move(to).take();
}

resize valid_resize(bench& on) {
  auto shape = any_shape(on, 3);
  const auto type = on.one_of({u8, f16, bf16, f32, f64});
  const auto layout = on.one_of({image_layout::channels_first, image_layout::channels_last});
  const auto x = on.loose(type, shape);
  const auto row = shape.size() - (layout == image_layout::channels_first ? 2 : 3);
  shape[row] = on.extent();
  shape[row + 1] = on.extent();
  return {.x = x,
          .height = shape[row],
          .width = shape[row + 1],
          .layout = layout,
          .y = on.loose(type, shape)};
}

operation_mutations resize_list() {
  mutations_of<resize> to(valid_resize);
  to.required("x", &resize::x);
  to.output("y", &resize::y, i32);
  to.aliasing("y", &resize::y, "x", &resize::x);
  for (const auto type : {boolean, i8, u16, i32, u64, c64, c128}) {
    to.add("x of " + std::string(to_string(type)), bad, "x",
           [type](resize& r, bench& on) { r.x = on.make(type, r.x.value().shape()); });
  }
  to.add("x is a row", bad, "x", [](resize& r, bench& on) { r.x = on.make(u8, {on.extent()}); });
  to.add("x is a number", bad, "x",
         [](resize& r, bench& on) { r.x = on.make(u8, {1}).select(0, 0); });
  to.add("x has no channels", bad, "x", [](resize& r, bench& on) {
    r.x = on.make(u8, {4, 5});
    r.layout = image_layout::channels_last;
  });
  to.add("x has no rows", bad, "x", [](resize& r, bench& on) {
    r.x = on.empty(u8, {2, 0, 5});
    r.layout = image_layout::channels_first;
  });
  for (const auto& [name, member] :
       {std::pair{"height", &resize::height}, std::pair{"width", &resize::width}}) {
    to.add(std::string("neither y nor a ") + name, bad, name, [member = member](resize& r, bench&) {
      r.*member = 0;
      r.y = {};
    });
    for (const auto value : {std::int64_t{-1}, -most, least}) {
      to.value(member, name + (" is " + std::to_string(value)), name, value);
    }
    to.add("y has another " + std::string(name), bad, "y",
           [member = member](resize& r, bench&) { ++(r.*member); });
    to.add(name + std::string(" is 2^63 - 1"), bad, "y", [member = member](resize& r, bench&) {
      r.*member = most;
      r.y = {};
    });
  }
  to.add("y of other dimensions states the size", bad, "y", [](resize& r, bench& on) {
    r.height = r.width = 0;
    r.y = on.make(r.x.value().type(), {on.extent()});
  });
  for (const int value : {2, 255}) {
    to.value(&resize::layout, "layout " + std::to_string(value), "layout",
             static_cast<image_layout>(value));
  }
  return std::move(to).take();
}

}  // namespace

std::vector<operation_mutations> elementwise_mutations() {
  std::vector<operation_mutations> all;
  all.push_back(cast_list());
  all.push_back(copy_list());
  all.push_back(affine_list());
  all.push_back(binary_list<add>(true));
  all.push_back(binary_list<subtract>(true));
  all.push_back(binary_list<multiply>(true));
  all.push_back(binary_list<maximum>(false));
  all.push_back(binary_list<minimum>(false));
  all.push_back(reduce_list());
  all.push_back(resize_list());
  return all;
}

}  // namespace sluice::test
