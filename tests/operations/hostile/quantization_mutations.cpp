// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/hostile/mutations.hpp"
#include "tests/operations/hostile/shapes.hpp"

#include <sluice/operations/quantization.hpp>

#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using enum element_type;

/// Adds what is wrong with scales of X of the shape (4, 6).
template <class Operation>
void add_scales(mutations_of<Operation>& mutations) {
  mutations.required("x", &Operation::x);
  mutations.required("scale", &Operation::scale);
  mutations.memory("zero_point", &Operation::zero_point);
  mutations.aliasing("y", &Operation::y, "x", &Operation::x);
  mutations.aliasing("y", &Operation::y, "scale", &Operation::scale);
  add_no_types(mutations);
  for (const auto type : {boolean, u8, i32, f64, c64, e4m3}) {
    mutations.add("scale of type " + std::string(to_string(type)), bad, "scale",
                  [type](Operation& op, bench& test_bench) {
                    op.scale = test_bench.make(type, op.scale.value().shape());
                  });
  }
  mutations.add("zero points of another shape", bad, "zero_point",
                [](Operation& op, bench& test_bench) {
                  op.zero_point = test_bench.make(op.zero_point.value().type(), {5});
                });
  mutations.add("zero points of real numbers", bad, "zero_point",
                [](Operation& op, bench& test_bench) {
                  op.zero_point = test_bench.make(f32, op.scale.value().shape());
                });
  for (const auto& shape : {extents{4, 5}, extents{3, 1}, extents{1, 12}, extents{1, 4, 6},
                            extents{0}, extents{0, 6}, extents{7}}) {
    mutations.add("scale of the shape " + to_string(shape), bad, "scale",
                  [shape](Operation& op, bench& test_bench) {
                    op.axis = {};
                    op.scale = test_bench.make(f32, shape);
                    op.zero_point = {};
                  });
  }
  for (const auto value : {std::int64_t{2}, std::int64_t{-3}, huge, most, least}) {
    mutations.value(&Operation::axis, "axis " + std::to_string(value), "axis", value);
  }
  for (const auto& shape : {extents{}, extents{4}, extents{1, 6}, extents{1}}) {
    mutations.add("scale of the shape " + to_string(shape) + " along an axis", bad, "scale",
                  [shape](Operation& op, bench& test_bench) {
                    op.axis = 1;
                    op.scale = test_bench.make(f32, shape);
                    op.zero_point = {};
                  });
  }
  mutations.add("blocks of more than 8 dimensions", bad, "scale",
                [](Operation& op, bench& test_bench) {
                  const auto type = op.x.value().type();
                  op = {.x = test_bench.make(type, {2, 2, 2, 2, 2, 2, 2, 4}),
                        .scale = test_bench.make(f32, {2})};
                });
}

operation_mutations quantize_list() {
  mutations_of<quantize> mutations([](bench& test_bench) -> quantize {
    const auto type = test_bench.one_of({i8, u16, i16});
    return {.x = test_bench.loose(test_bench.one_of({f16, bf16, f32, i32}), {4, 6}),
            .scale = test_bench.loose(test_bench.one_of({f16, bf16, f32}), {6}),
            .zero_point = test_bench.loose(type, {6}),
            .axis = 1,
            .type = type,
            .y = test_bench.loose(type, {4, 6})};
  });
  add_scales(mutations);
  mutations.output("y", &quantize::y, u8);
  for (const auto type : {boolean, u8, f64, c64, e5m2}) {
    mutations.add("x of type " + std::string(to_string(type)), bad, "x",
                  [type](quantize& op, bench& test_bench) {
                    op.x = test_bench.make(type, {4, 6});
                  });
  }
  for (const auto type : {boolean, i32, f32}) {
    mutations.value(&quantize::type, "results of " + std::string(to_string(type)), "type", type);
  }
  mutations.add("integers of 32 bits", bad, "y", [](quantize& op, bench& test_bench) {
    op.type = {};
    op.zero_point = {};
    op.y = test_bench.make(i32, {4, 6});
  });
  mutations.add("a zero point of 32 bits", bad, "zero_point", [](quantize& op, bench& test_bench) {
    op.type = {};
    op.zero_point = test_bench.make(i32, {6});
    op.y = {};
  });
  mutations.add("a zero point of another type", bad, "zero_point",
                [](quantize& op, bench& test_bench) { op.zero_point = test_bench.make(u8, {6}); });
  mutations.add("2^49 blocks", errc::out_of_memory, "y", [](quantize& op, bench& test_bench) {
    op = {.x = test_bench.repeated(f32, {std::int64_t{1} << 50U}),
          .scale = test_bench.repeated(f32, {std::int64_t{1} << 49U})};
  });
  return std::move(mutations).take();
}

operation_mutations dequantize_list() {
  mutations_of<dequantize> mutations([](bench& test_bench) -> dequantize {
    const auto x_type = test_bench.one_of({i8, u8, u16, i16});
    const auto type = test_bench.one_of({f16, bf16, f32});
    return {.x = test_bench.loose(x_type, {4, 6}),
            .scale = test_bench.loose(test_bench.one_of({f16, bf16, f32}), {6}),
            .zero_point = test_bench.loose(x_type, {6}),
            .axis = 1,
            .type = type,
            .y = test_bench.loose(type, {4, 6})};
  });
  add_scales(mutations);
  mutations.output("y", &dequantize::y, u8);
  for (const auto type : {boolean, u32, i64, f32, c64}) {
    mutations.add("x of type " + std::string(to_string(type)), bad, "x",
                  [type](dequantize& op, bench& test_bench) {
                    op.x = test_bench.make(type, {4, 6});
                  });
  }
  for (const auto type : {boolean, i32, f64}) {
    mutations.value(&dequantize::type, "results of " + std::string(to_string(type)), "type", type);
  }
  mutations.add("results of f64 in y", bad, "y", [](dequantize& op, bench& test_bench) {
    op.type = {};
    op.y = test_bench.make(f64, {4, 6});
  });
  mutations.add("a zero point of sums", bad, "zero_point", [](dequantize& op, bench& test_bench) {
    op.x = test_bench.make(i32, {4, 6});
    op.zero_point = test_bench.make(i32, {6});
  });
  return std::move(mutations).take();
}

operation_mutations dynamic_quantize_list() {
  mutations_of<dynamic_quantize> mutations([](bench& test_bench) -> dynamic_quantize {
    const auto shape = any_shape(test_bench);
    return {.x = test_bench.loose(test_bench.one_of({f16, bf16, f32}), shape),
            .y = test_bench.loose(u8, shape)};
  });
  mutations.required("x", &dynamic_quantize::x);
  mutations.output("y", &dynamic_quantize::y, i8);
  mutations.aliasing("y", &dynamic_quantize::y, "x", &dynamic_quantize::x);
  for (const auto type : {boolean, u8, i32, f64, c64, e4m3}) {
    mutations.add("x of type " + std::string(to_string(type)), bad, "x",
                  [type](dynamic_quantize& op, bench& test_bench) {
                    op.x = test_bench.make(type, op.x.value().shape());
                  });
  }
  for (const auto& [name, member] : {std::pair{"scale", &dynamic_quantize::scale},
                                     std::pair{"zero_point", &dynamic_quantize::zero_point}}) {
    mutations.add(std::string(name) + " of one dimension", bad, name,
                  [member = member](dynamic_quantize& op, bench& test_bench) {
                    op.*member =
                        test_bench.make(member == &dynamic_quantize::scale ? f32 : u8, {1});
                  });
    mutations.add(std::string(name) + " of type f64", bad, name,
                  [member = member](dynamic_quantize& op, bench& test_bench) {
                    op.*member = test_bench.make(f64, {});
                  });
    mutations.add("stale " + std::string(name), errc::stale_ref, name,
                  [member = member](dynamic_quantize& op, bench& test_bench) {
                    op.*member = test_bench.stale(
                        test_bench.make(member == &dynamic_quantize::scale ? f32 : u8, {}));
                  });
    mutations.add("foreign " + std::string(name), bad, name,
                  [member = member](dynamic_quantize& op, bench& test_bench) {
                    op.*member = test_bench.foreign(
                        test_bench.make(member == &dynamic_quantize::scale ? f32 : u8, {}));
                  });
  }
  return std::move(mutations).take();
}

}  // namespace

std::vector<operation_mutations> quantization_mutations() {
  return {quantize_list(), dequantize_list(), dynamic_quantize_list()};
}

}  // namespace sluice::test
