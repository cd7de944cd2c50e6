// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/hostile/mutations.hpp"
#include "tests/operations/hostile/shapes.hpp"

#include <sluice/operations/cumulative.hpp>
#include <sluice/operations/movement.hpp>

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using enum element_type;

template <class Operation>
void add_moved_operands(mutations_of<Operation>& mutations) {
  mutations.required("x", &Operation::x);
  mutations.output("y", &Operation::y, u8);
  mutations.aliasing("y", &Operation::y, "x", &Operation::x);
}

operation_mutations pad_list() {
  mutations_of<pad> mutations([](bench& test_bench) -> pad {
    const auto type = copied_type(test_bench);
    return {.x = test_bench.loose(type, {3, 4}),
            .before = {1, -1},
            .after = {0, 2},
            .mode = test_bench.one_of(
                {pad_mode::constant, pad_mode::edge, pad_mode::reflect, pad_mode::wrap}),
            .y = test_bench.loose(type, {4, 5})};
  });
  add_moved_operands(mutations);
  for (const auto& [name, member] :
       {std::pair{"before", &pad::before}, std::pair{"after", &pad::after}}) {
    for (const auto& numbers : {extents{1}, extents{1, 0, 0}, extents{-4, 0}, extents{0, most},
                                extents{least, 0}, extents{0, least}, extents{most, most}}) {
      mutations.add(std::string(name) + " is " + to_string(numbers), bad, name,
                    [member = member, numbers](pad& op, bench&) {
                      op.before = {};
                      op.after = {};
                      op.*member = numbers;
                      op.y = {};
                    });
    }
  }
  mutations.add("more is cropped than there is", bad, "after", [](pad& op, bench&) {
    op.before = {-2, 0};
    op.after = {-2, 0};
    op.y = {};
  });
  mutations.add("2^62 elements around x", bad, "y", [](pad& op, bench& test_bench) {
    op = {.x = test_bench.make(f64, {3, 4}), .before = {huge, huge}, .mode = pad_mode::edge};
  });
  for (const int value : {4, 255}) {
    mutations.value(&pad::mode, "mode " + std::to_string(value), "mode",
                    static_cast<pad_mode>(value));
  }
  for (const auto& value : {scalar(0.5), scalar(1e300), scalar(256), scalar(-1)}) {
    mutations.add("bytes of " + value.text(), bad, "value", [value](pad& op, bench& test_bench) {
      op = {.x = test_bench.make(u8, {3, 4}), .before = {1, 1}, .value = value};
    });
  }
  mutations.add("a value of edges", bad, "value", [](pad& op, bench&) {
    op.mode = pad_mode::edge;
    op.value = 1;
  });
  for (const auto mode : {pad_mode::edge, pad_mode::reflect, pad_mode::wrap}) {
    mutations.add("repeated nothing, mode " + std::to_string(static_cast<int>(mode)), bad, "x",
                  [mode](pad& op, bench& test_bench) {
                    op = {.x = test_bench.empty(f32, {3, 0}), .before = {0, 1}, .mode = mode};
                  });
  }
  return std::move(mutations).take();
}

operation_mutations tile_list() {
  mutations_of<tile> mutations([](bench& test_bench) -> tile {
    const auto type = copied_type(test_bench);
    return {.x = test_bench.loose(type, {3, 4}),
            .repeats = {2, 3},
            .y = test_bench.loose(type, {6, 12})};
  });
  add_moved_operands(mutations);
  for (const auto& repeats : {extents{}, extents{2}, extents{2, 2, 2}, extents{-1, 2},
                              extents{1, most}, extents{least, 1}}) {
    mutations.add("repeats " + to_string(repeats), bad, "repeats", [repeats](tile& op, bench&) {
      op.repeats = repeats;
      op.y = {};
    });
  }
  mutations.add("2^62 times", bad, "y", [](tile& op, bench&) {
    op.repeats = {huge, huge};
    op.y = {};
  });
  return std::move(mutations).take();
}

operation_mutations roll_list() {
  mutations_of<roll> mutations([](bench& test_bench) -> roll {
    const auto type = copied_type(test_bench);
    const auto shape = any_shape(test_bench, 2);
    return {.x = test_bench.loose(type, shape),
            .shifts = {1, -2},
            .axes = {0, -1},
            .y = test_bench.loose(type, shape)};
  });
  add_moved_operands(mutations);
  mutations.value(&roll::shifts, "a shift too few", "shifts", extents{1});
  mutations.value(&roll::shifts, "a shift too many", "shifts", extents{1, 2, 3});
  for (const auto value : {std::int64_t{4}, std::int64_t{-5}, huge, most, least}) {
    mutations.value(&roll::axes, "axis " + std::to_string(value), "axes", extents{0, value});
  }
  return std::move(mutations).take();
}

operation_mutations triangle_list() {
  mutations_of<triangle> mutations([](bench& test_bench) -> triangle {
    const auto type = copied_type(test_bench);
    const auto shape = any_shape(test_bench, 2);
    return {.x = test_bench.loose(type, shape),
            .upper = test_bench.coin(),
            .y = test_bench.loose(type, shape)};
  });
  add_moved_operands(mutations);
  mutations.add("x is a row", bad, "x",
                [](triangle& op, bench& test_bench) { op = {.x = test_bench.make(f32, {3})}; });
  return std::move(mutations).take();
}

operation_mutations eye_list() {
  mutations_of<eye> mutations([](bench& test_bench) -> eye {
    const auto shape = any_shape(test_bench, 2);
    const auto type = copied_type(test_bench);
    return {.shape = shape, .type = type, .y = test_bench.loose(type, shape)};
  });
  mutations.output("y", &eye::y, u8);
  add_no_types(mutations);
  add_shapes(mutations);
  mutations.add("a row", bad, "shape", [](eye& op, bench&) {
    op.shape = extents{3};
    op.y = {};
  });
  return std::move(mutations).take();
}

operation_mutations range_list() {
  mutations_of<range> mutations([](bench& test_bench) -> range {
    const auto type = test_bench.one_of({i8, u16, bf16, f32, u64, f64});
    return {.start = 1, .limit = 6, .step = 2, .type = type, .y = test_bench.make(type, {3})};
  });
  mutations.output("y", &range::y, u8);
  add_no_types(mutations);
  mutations.value(&range::limit, "no limit", "limit", std::nullopt);
  mutations.value(&range::step, "step 0", "step", 0);
  mutations.value(&range::step, "step 0.0", "step", 0.0);
  for (const auto type : {boolean, c64, c128, e4m3}) {
    mutations.value(&range::type, "numbers of " + std::string(to_string(type)), "type", type);
  }
  const auto add_range = [&](const std::string& description, const std::string& argument,
                             const range& wrong) {
    mutations.add(description, bad, argument, [wrong](range& op, bench&) { op = wrong; });
  };
  add_range("a start that is no integer", "start", {.start = 0.5, .limit = 3, .type = i32});
  add_range("a negative start of bytes", "start", {.start = -1, .limit = 3, .type = u8});
  add_range("bytes up to 256", "limit", {.limit = 257, .type = u8});
  add_range("2^64 - 1 integers", "limit", {.start = least, .limit = most, .type = i64});
  add_range("2^63 - 1 integers", "y", {.limit = most, .type = i64});
  add_range("1e300 numbers", "limit", {.limit = 1e300});
  add_range("2^61 numbers", "y", {.limit = 0x1p61, .type = f64});
  add_range("up to infinity", "limit", {.limit = std::numeric_limits<double>::infinity()});
  add_range("from NaN", "start", {.start = std::numeric_limits<double>::quiet_NaN(), .limit = 1});
  return std::move(mutations).take();
}

operation_mutations one_hot_list() {
  mutations_of<one_hot> mutations([](bench& test_bench) -> one_hot {
    const auto type = copied_type(test_bench);
    return {.indices = test_bench.loose(test_bench.one_of({i32, i64}), {3, 4}),
            .depth = 5,
            .axis = test_bench.one_of<std::int64_t>({-1, 2}),
            .type = type,
            .y = test_bench.loose(type, {3, 4, 5})};
  });
  mutations.required("indices", &one_hot::indices);
  mutations.output("y", &one_hot::y, u8);
  mutations.aliasing("y", &one_hot::y, "indices", &one_hot::indices);
  add_no_types(mutations);
  for (const auto value : {std::int64_t{3}, std::int64_t{-4}, most, least}) {
    mutations.value(&one_hot::axis, "axis " + std::to_string(value), "axis", value);
  }
  for (const auto value : {std::int64_t{-1}, least}) {
    mutations.value(&one_hot::depth, "depth " + std::to_string(value), "depth", value);
  }
  mutations.add("depth 2^63 - 1", bad, "y", [](one_hot& op, bench&) {
    op.depth = most;
    op.y = {};
  });
  mutations.add("a result of 9 dimensions", bad, "indices", [](one_hot& op, bench& test_bench) {
    op = {.indices = test_bench.make(i32, {1, 1, 1, 1, 1, 1, 1, 1}), .depth = 2};
  });
  mutations.add("indices of numbers", bad, "indices", [](one_hot& op, bench& test_bench) {
    op.indices = test_bench.make(f32, {3, 4});
  });
  for (const auto& [name, member] :
       {std::pair{"on", &one_hot::on}, std::pair{"off", &one_hot::off}}) {
    mutations.add(std::string(name) + " is no byte", bad, name,
                  [member = member](one_hot& op, bench&) {
                    op.*member = 256;
                    op.type = u8;
                    op.y = {};
                  });
  }
  return std::move(mutations).take();
}

operation_mutations cumulative_list() {
  mutations_of<cumulative> mutations([](bench& test_bench) -> cumulative {
    const auto type = test_bench.one_of({i8, u16, bf16, f32, u64, c64, c128});
    const auto shape = any_shape(test_bench, 2);
    return {.x = test_bench.loose(type, shape),
            .axis = test_bench.one_of<std::int64_t>({1, -1}),
            .y = test_bench.loose(type, shape)};
  });
  add_moved_operands(mutations);
  mutations.add("x of truth values", bad, "x", [](cumulative& op, bench& test_bench) {
    op = {.x = test_bench.make(boolean, {3, 4})};
  });
  for (const auto value : {std::int64_t{4}, std::int64_t{-5}, huge, most, least}) {
    mutations.value(&cumulative::axis, "axis " + std::to_string(value), "axis", value);
  }
  for (const int value : {2, 255}) {
    mutations.value(&cumulative::kind, "kind " + std::to_string(value), "kind",
                    static_cast<cumulative_kind>(value));
  }
  return std::move(mutations).take();
}

}  // namespace

std::vector<operation_mutations> movement_mutations() {
  std::vector<operation_mutations> all;
  all.push_back(pad_list());
  all.push_back(tile_list());
  all.push_back(roll_list());
  all.push_back(triangle_list());
  all.push_back(eye_list());
  all.push_back(range_list());
  all.push_back(one_hot_list());
  all.push_back(cumulative_list());
  return all;
}

}  // namespace sluice::test
