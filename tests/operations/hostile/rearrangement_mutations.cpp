// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/hostile/mutations.hpp"
#include "tests/operations/hostile/shapes.hpp"

#include <sluice/operations/rearrangement.hpp>

#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using enum element_type;

template <class Operation>
void add_rearranged(mutations_of<Operation>& mutations) {
  mutations.required("x", &Operation::x);
  mutations.output("y", &Operation::y, u8);
  mutations.aliasing("y", &Operation::y, "x", &Operation::x);
}

/// Adds what is wrong with blocks of images.
template <class Operation>
void add_blocks(mutations_of<Operation>& mutations) {
  add_rearranged(mutations);
  for (const auto value : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{3},
                           std::int64_t{1} << 32U, std::int64_t{1} << 62U, most, least}) {
    mutations.value(&Operation::block, "blocks of " + std::to_string(value), "block", value);
  }
  for (const int value : {2, 255}) {
    mutations.value(&Operation::order, "order " + std::to_string(value), "order",
                    static_cast<depth_order>(value));
  }
  for (const auto& shape : {extents{4, 4, 4}, extents{4, 4, 4, 4, 4}}) {
    mutations.add("x of the shape " + to_string(shape), bad, "x",
                  [shape](Operation& op, bench& test_bench) {
                    op.x = test_bench.make(f32, shape);
                    op.y = {};
                  });
  }
}

operation_mutations depth_to_space_list() {
  mutations_of<depth_to_space> mutations([](bench& test_bench) -> depth_to_space {
    const auto type = copied_type(test_bench);
    return {.x = test_bench.loose(type, {2, 8, 2, 4}),
            .block = 2,
            .order = test_bench.one_of({depth_order::dcr, depth_order::crd}),
            .y = test_bench.loose(type, {2, 2, 4, 8})};
  });
  add_blocks(mutations);
  mutations.add("images of 2^62 rows", bad, "block", [](depth_to_space& op, bench& test_bench) {
    op.x = test_bench.empty(f32, {0, 8, std::int64_t{1} << 62U, 4});
    op.y = {};
  });
  return std::move(mutations).take();
}

operation_mutations space_to_depth_list() {
  mutations_of<space_to_depth> mutations([](bench& test_bench) -> space_to_depth {
    const auto type = copied_type(test_bench);
    return {.x = test_bench.loose(type, {2, 2, 4, 8}),
            .block = 2,
            .order = test_bench.one_of({depth_order::dcr, depth_order::crd}),
            .y = test_bench.loose(type, {2, 8, 2, 4})};
  });
  add_blocks(mutations);
  mutations.add("2^62 channels", bad, "block", [](space_to_depth& op, bench& test_bench) {
    op.x = test_bench.empty(f32, {0, std::int64_t{1} << 62U, 4, 4});
    op.y = {};
  });
  return std::move(mutations).take();
}

operation_mutations reverse_list() {
  mutations_of<sluice::reverse> mutations([](bench& test_bench) -> sluice::reverse {
    const auto type = copied_type(test_bench);
    const auto shape = any_shape(test_bench, 2);
    return {
        .x = test_bench.loose(type, shape), .axes = {0, -1}, .y = test_bench.loose(type, shape)};
  });
  add_rearranged(mutations);
  for (const auto value : {std::int64_t{4}, std::int64_t{-5}, huge, most, least}) {
    mutations.value(&sluice::reverse::axes, "axis " + std::to_string(value), "axes", {0, value});
  }
  mutations.value(&sluice::reverse::axes, "an axis twice", "axes", {0, 1, 0});
  return std::move(mutations).take();
}

operation_mutations reverse_sequence_list() {
  mutations_of<reverse_sequence> mutations([](bench& test_bench) -> reverse_sequence {
    const auto type = copied_type(test_bench);
    return {.x = test_bench.loose(type, {5, 3, 2}),
            .lengths = test_bench.loose(test_bench.one_of({i32, i64}), {3}),
            .y = test_bench.loose(type, {5, 3, 2})};
  });
  add_rearranged(mutations);
  mutations.required("lengths", &reverse_sequence::lengths);
  mutations.aliasing("y", &reverse_sequence::y, "lengths", &reverse_sequence::lengths);
  for (const auto& [name, member] : {std::pair{"time_axis", &reverse_sequence::time_axis},
                                     std::pair{"batch_axis", &reverse_sequence::batch_axis}}) {
    for (const auto value : {std::int64_t{3}, std::int64_t{-4}, huge, most, least}) {
      mutations.value(member, std::string(name) + ' ' + std::to_string(value), name, value);
    }
  }
  mutations.value(&reverse_sequence::batch_axis, "sequences along the time", "batch_axis", -3);
  for (const auto& shape : {extents{}, extents{4}, extents{3, 1}}) {
    mutations.add("lengths of the shape " + to_string(shape), bad, "lengths",
                  [shape](reverse_sequence& op, bench& test_bench) {
                    op.lengths = test_bench.make(i64, shape);
                  });
  }
  mutations.add("lengths of numbers", bad, "lengths", [](reverse_sequence& op, bench& test_bench) {
    op.lengths = test_bench.make(f32, {3});
  });
  return std::move(mutations).take();
}

/// Adds what is wrong with windows of {2, 3} of small images.
template <class Operation>
void add_column_windows(mutations_of<Operation>& mutations) {
  add_rearranged(mutations);
  const std::vector<std::pair<std::string, extents Operation::*>> lists{
      {"window", &Operation::window},
      {"strides", &Operation::strides},
      {"before", &Operation::before},
      {"after", &Operation::after},
      {"dilation", &Operation::dilation}};
  for (const auto& [name, member] : lists) {
    mutations.value(member, name + " of one number", name, {1});
    mutations.value(member, name + " of three numbers", name, {1, 1, 1});
    mutations.value(member, name + " is negative", name, {2, -1});
    mutations.value(member, name + " is the least number", name, {least, 1});
  }
  for (const auto& [name, member] : {lists[0], lists[1], lists[4]}) {
    mutations.value(member, name + " is 0", name, {0, 1});
  }
  mutations.value(&Operation::window, "no window", "window", {});
  for (const auto value : {std::int64_t{20}, huge, most}) {
    mutations.value(&Operation::window, "a window of " + std::to_string(value), "window",
                    {2, value});
    mutations.value(&Operation::dilation, "a dilation of " + std::to_string(value), "window",
                    {value, 1});
  }
  mutations.add("padding that overflows", bad, "after", [](Operation& op, bench&) {
    op.before = {most, 0};
    op.after = {most, 0};
  });
}

operation_mutations im2col_list() {
  mutations_of<im2col> mutations([](bench& test_bench) -> im2col {
    const auto type = copied_type(test_bench);
    return {.x = test_bench.loose(type, {2, 3, 4, 5}),
            .window = {2, 3},
            .strides = {1, 2},
            .before = {1, 0},
            .after = {0, 1},
            .dilation = {2, 1},
            .y = test_bench.loose(type, {2, 18, 6})};
  });
  add_column_windows(mutations);
  mutations.add("x is a matrix", bad, "x", [](im2col& op, bench& test_bench) {
    op.x = test_bench.make(f32, {4, 5});
    op.y = {};
  });
  mutations.add("more windows than numbers", bad, "after", [](im2col& op, bench&) {
    op.after = {std::int64_t{1} << 40U, std::int64_t{1} << 40U};
    op.y = {};
  });
  mutations.add("windows of 2^62 channels", bad, "window", [](im2col& op, bench& test_bench) {
    op.x = test_bench.empty(f32, {0, std::int64_t{1} << 62U, 4, 5});
    op.y = {};
  });
  mutations.add("a new y of 2^60 columns", bad, "y", [](im2col& op, bench& test_bench) {
    op.x = test_bench.make(f64, {2, 3, 4, 5});
    op.strides = {1, 2};
    op.after = {std::int64_t{1} << 59U, 1};
    op.y = {};
  });
  return std::move(mutations).take();
}

operation_mutations col2im_list() {
  mutations_of<col2im> mutations([](bench& test_bench) -> col2im {
    const auto type = test_bench.one_of({i8, u16, bf16, f32, u64, c64, c128});
    return {.x = test_bench.loose(type, {2, 18, 6}),
            .size = {4, 5},
            .window = {2, 3},
            .strides = {1, 2},
            .before = {1, 0},
            .after = {0, 1},
            .dilation = {2, 1},
            .y = test_bench.loose(type, {2, 3, 4, 5})};
  });
  add_column_windows(mutations);
  for (const auto& size :
       {extents{}, extents{4}, extents{4, 5, 6}, extents{0, 5}, extents{-1, 5}}) {
    mutations.value(&col2im::size, "images of " + to_string(size), "size", size);
  }
  mutations.value(&col2im::size, "larger images", "x", {9, 5});
  for (const auto& shape : {extents{2, 17, 6}, extents{2, 18, 7}, extents{18, 6}}) {
    mutations.add("x of the shape " + to_string(shape), bad, "x",
                  [shape](col2im& op, bench& test_bench) {
                    op.x = test_bench.make(f32, shape);
                    op.y = {};
                  });
  }
  mutations.add("x of truth values", bad, "x", [](col2im& op, bench& test_bench) {
    op = {.x = test_bench.make(boolean, {1, 4, 1}), .size = {2, 2}, .window = {2, 2}};
  });
  mutations.add("more work than a device does", errc::unsupported, "col2im",
                [](col2im& op, bench& test_bench) {
                  constexpr auto many = std::int64_t{1} << 30U;
                  op = {.x = test_bench.repeated(f32, {1, many * many, 1}),
                        .size = {1, 1},
                        .window = {many, many},
                        .before = {many - 1, many - 1}};
                });
  return std::move(mutations).take();
}

}  // namespace

std::vector<operation_mutations> rearrangement_mutations() {
  return {depth_to_space_list(),   space_to_depth_list(), reverse_list(),
          reverse_sequence_list(), im2col_list(),         col2im_list()};
}

}  // namespace sluice::test
