// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/hostile/mutations.hpp"
#include "tests/operations/hostile/real_operands.hpp"

#include <sluice/operations/max_pool_with_indices.hpp>
#include <sluice/operations/pool.hpp>
#include <sluice/operations/roi_align.hpp>

#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using enum element_type;

pool valid_pool(bench& test_bench) {
  const auto type = any_real(test_bench);
  const extents x{test_bench.extent(), test_bench.extent(), test_bench.extent(5, 7),
                  test_bench.extent(5, 7)};
  const auto kind = test_bench.one_of({pooling::average, pooling::lp});
  const bool ceil_mode = test_bench.coin();
  const auto columns = (x[3] - 1) / 2 + (ceil_mode && x[3] % 2 == 0 ? 2 : 1);
  return {.x = test_bench.loose(type, x),
          .kind = kind,
          .window = {2, 3},
          .strides = {1, 2},
          .before = {1, 2},
          .after = {1, 0},
          .dilation = {2, 1},
          .ceil_mode = ceil_mode,
          .count_padding = kind == pooling::average,
          .p = kind == pooling::lp ? test_bench.extent(1, 3) : 2,
          .y = test_bench.loose(type, {x[0], x[1], x[2], columns})};
}
/// Adds what is wrong with the lists of windows.
template <class Operation>
void add_windows(mutations_of<Operation>& mutations) {
  const std::vector<std::pair<std::string, extents Operation::*>> lists{
      {"window", &Operation::window},
      {"strides", &Operation::strides},
      {"before", &Operation::before},
      {"after", &Operation::after},
      {"dilation", &Operation::dilation}};
  for (const auto& [name, member] : lists) {
    mutations.value(member, name + " of one number", name == "window" ? "strides" : name, {1});
    mutations.value(member, name + " of four numbers", name, {1, 1, 1, 1});
    mutations.value(member, name + " is negative", name, {2, -1});
    mutations.value(member, name + " is the least number", name, {least, 1});
  }
  for (const auto& [name, member] : {lists[0], lists[1], lists[4]}) {
    mutations.value(member, name + " is 0", name, {0, 1});
  }
  mutations.value(&Operation::window, "no window", "window", {});
  for (const auto value :
       {std::int64_t{20}, std::int64_t{1} << 31U, std::int64_t{1} << 62U, most}) {
    mutations.value(&Operation::window, "a window of " + std::to_string(value), "window",
                    {2, value});
    mutations.value(&Operation::before, std::to_string(value) + " before", "before", {value, 0});
    mutations.value(&Operation::after, std::to_string(value) + " after", "after", {value, 0});
    mutations.value(&Operation::dilation, "a dilation of " + std::to_string(value), "window",
                    {value, 1});
  }
  mutations.add("a dilation that overflows", bad, "window", [](Operation& o, bench&) {
    o.window = {3, 3};
    o.dilation = {most, 1};
  });
  mutations.add("a window whose elements overflow", bad, "window", [](Operation& o, bench&) {
    constexpr auto many = std::int64_t{1} << 32U;
    o.window = {many, many};
    o.before = {many - 1, many - 1};
    o.y = {};
  });
  mutations.add("padding that overflows", bad, "after", [](Operation& o, bench&) {
    o.window = {most, 1};
    o.before = {most - 1, 0};
    o.after = {most - 1, 0};
    o.dilation = {};
  });
  mutations.add("a new y that overflows", bad, "y", [](Operation& o, bench&) {
    o.window = {(std::int64_t{1} << 61U), 1};
    o.before = o.after = {(std::int64_t{1} << 61U) - 1, 0};
    o.dilation = {};
    o.y = {};
  });
  mutations.add("a new y of 2^40 rows", errc::out_of_memory, "y", [](Operation& o, bench&) {
    o.window = {std::int64_t{1} << 40U, 1};
    o.before = o.after = {(std::int64_t{1} << 40U) - 1, 0};
    o.dilation = {};
    o.y = {};
    if constexpr (requires { o.indices; }) o.indices = {};
  });
}
operation_mutations pool_mutations() {
  mutations_of<pool> mutations(valid_pool);
  add_operands(mutations);
  add_windows(mutations);
  mutations.add("images without rows", bad, "x", [](pool& o, bench& test_bench) {
    o.x = test_bench.empty(f32, {2, 2, 0, 5});
    o.y = {};
  });
  for (const int value : {3, 255}) {
    mutations.value(&pool::kind, "kind " + std::to_string(value), "kind",
                    static_cast<pooling>(value));
  }
  mutations.add("padding of a norm that counts", bad, "count_padding", [](pool& o, bench&) {
    o.kind = pooling::lp;
    o.count_padding = true;
  });
  for (const auto value : {std::int64_t{0}, std::int64_t{-1}, least}) {
    mutations.value(&pool::p, "p is " + std::to_string(value), "p", value);
  }
  return std::move(mutations).take();
}

operation_mutations max_pool_with_indices_mutations() {
  mutations_of<max_pool_with_indices> mutations([](bench& test_bench) -> max_pool_with_indices {
    auto model = valid_pool(test_bench);
    const auto shape = model.y.value().shape();
    return {.x = std::move(model.x),
            .window = model.window,
            .strides = model.strides,
            .before = model.before,
            .after = model.after,
            .dilation = model.dilation,
            .ceil_mode = model.ceil_mode,
            .within_plane = test_bench.coin(),
            .y = std::move(model.y),
            .indices = test_bench.loose(i64, shape)};
  });
  mutations.required("x", &max_pool_with_indices::x);
  mutations.output("y", &max_pool_with_indices::y, c64);
  mutations.aliasing("y", &max_pool_with_indices::y, "x", &max_pool_with_indices::x);
  mutations.output("indices", &max_pool_with_indices::indices, u8);
  mutations.aliasing("indices", &max_pool_with_indices::indices, "x", &max_pool_with_indices::x);
  add_windows(mutations);
  for (const auto type : {boolean, i32, c64, e4m3}) {
    mutations.add("x of type " + std::string(to_string(type)), bad, "x",
                  [type](max_pool_with_indices& o, bench& test_bench) {
                    o.x = test_bench.make(type, o.x.value().shape());
                  });
  }
  return std::move(mutations).take();
}

operation_mutations adaptive_mutations() {
  mutations_of<adaptive_pool> mutations([](bench& test_bench) -> adaptive_pool {
    const auto type = any_real(test_bench);
    const extents shape{2, 2, test_bench.extent(), test_bench.extent()};
    return {.x = test_bench.loose(type, shape),
            .size = {3, 2},
            .y = test_bench.loose(type, {2, 2, 3, 2})};
  });
  add_operands(mutations);
  for (const auto value : {std::int64_t{0}, std::int64_t{-1}, least, most}) {
    mutations.value(&adaptive_pool::size, std::to_string(value) + " windows", "size", {3, value});
  }
  mutations.value(&adaptive_pool::size, "no size", "size", {});
  mutations.value(&adaptive_pool::size, "a size of one number", "size", {3});
  mutations.value(&adaptive_pool::size, "a size of four numbers", "size", {1, 1, 1, 1});
  mutations.value(&adaptive_pool::kind, "kind 3", "kind", static_cast<pooling>(3));
  mutations.value(&adaptive_pool::p, "p is 1", "p", 1);
  mutations.add("a new y of 2^60 rows", bad, "y", [](adaptive_pool& o, bench&) {
    o.size = {std::int64_t{1} << 60U, 2};
    o.y = {};
  });
  return std::move(mutations).take();
}

roi_align valid_roi_align(bench& test_bench) {
  const auto type = test_bench.one_of({f16, bf16, f32, f64});
  const auto x = test_bench.shape(4);
  const auto regions = test_bench.extent();
  const auto height = test_bench.extent();
  const auto width = test_bench.extent();
  return {.x = test_bench.loose(type, x),
          .rois = test_bench.loose(test_bench.one_of({f16, f32, f64}), {regions, 4}),
          .batch_indices = test_bench.loose(test_bench.one_of({i32, i64}), {regions}),
          .height = height,
          .width = width,
          .y = test_bench.loose(type, {regions, x[1], height, width})};
}

operation_mutations roi_mutations() {
  mutations_of<roi_align> mutations(valid_roi_align);
  mutations.required("x", &roi_align::x);
  mutations.required("rois", &roi_align::rois);
  mutations.value(&roi_align::out_of_range, "no policy", "out_of_range",
                  static_cast<out_of_range_policy>(3));
  mutations.required("batch_indices", &roi_align::batch_indices);
  mutations.output("y", &roi_align::y, i32);
  mutations.aliasing("y", &roi_align::y, "x", &roi_align::x);
  mutations.aliasing("y", &roi_align::y, "rois", &roi_align::rois);
  mutations.aliasing("y", &roi_align::y, "batch_indices", &roi_align::batch_indices);
  for (const auto type : {boolean, u8, i64, c64, e4m3}) {
    mutations.add("x of " + std::string(to_string(type)), bad, "x",
                  [type](roi_align& r, bench& test_bench) {
                    r.x = test_bench.make(type, r.x.value().shape());
                  });
  }
  mutations.add("one more region", bad, "batch_indices", [](roi_align& r, bench& test_bench) {
    r.rois = test_bench.make(f32, {r.rois.value().shape()[0] + 1, 4});
  });
  mutations.add("regions of five numbers", bad, "rois", [](roi_align& r, bench& test_bench) {
    r.rois = test_bench.make(f32, {r.rois.value().shape()[0], 5});
  });
  mutations.add("an index of type f32", bad, "batch_indices", [](roi_align& r, bench& test_bench) {
    r.batch_indices = test_bench.make(f32, r.batch_indices.value().shape());
  });
  mutations.add("x of three dimensions", bad, "x", [](roi_align& r, bench& test_bench) {
    r.x = test_bench.make(f32, test_bench.shape(3));
  });
  mutations.add("x without rows", bad, "x", [](roi_align& r, bench& test_bench) {
    r.x = test_bench.empty(f32, {2, 3, 0, 4});
  });
  for (const auto value : {std::int64_t{0}, std::int64_t{-1}, least}) {
    mutations.value(&roi_align::height, "height " + std::to_string(value), "height", value);
    mutations.value(&roi_align::width, "width " + std::to_string(value), "width", value);
  }
  mutations.add("2^63 - 1 rows", bad, "y", [](roi_align& r, bench&) {
    r.height = most;
    r.y = {};
  });
  for (const auto value : {std::int64_t{-1}, least}) {
    mutations.value(&roi_align::sampling_ratio, "ratio " + std::to_string(value), "sampling_ratio",
                    value);
  }
  mutations.value(&roi_align::spatial_scale, "an infinite scale", "spatial_scale",
                  std::numeric_limits<double>::infinity());
  for (const int value : {3, 255}) {
    mutations.value(&roi_align::mode, "mode " + std::to_string(value), "mode",
                    static_cast<roi_pooling>(value));
  }
  return std::move(mutations).take();
}

}  // namespace

std::vector<operation_mutations> pooling_mutations() {
  std::vector<operation_mutations> all;
  all.push_back(pool_mutations());
  all.push_back(max_pool_with_indices_mutations());
  all.push_back(adaptive_mutations());
  all.push_back(roi_mutations());
  return all;
}

}  // namespace sluice::test
