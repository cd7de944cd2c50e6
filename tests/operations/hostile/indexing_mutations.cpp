// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/hostile/mutations.hpp"

#include <sluice/operations/gather.hpp>
#include <sluice/operations/scatter.hpp>

#include <vector>

namespace sluice::test {
namespace {

using enum element_type;

tensor any_indices(bench& test_bench, const extents& shape) {
  return test_bench.loose(test_bench.one_of({i32, i64}), shape);
}
/// Numbers that are no dimension of a tensor.
template <class Operation>
void add_axes(mutations_of<Operation>& mutations) {
  for (const auto value : {std::int64_t{4}, std::int64_t{-5}, huge, most, least}) {
    mutations.value(&Operation::axis, "axis " + std::to_string(value), "axis", value);
  }
}
template <class Operation>
void add_indices(mutations_of<Operation>& mutations) {
  mutations.required("x", &Operation::x);
  mutations.required("indices", &Operation::indices);
  mutations.output("y", &Operation::y, u8);
  mutations.value(&Operation::out_of_range, "no policy", "out_of_range",
                  static_cast<out_of_range_policy>(3));
  mutations.aliasing("y", &Operation::y, "x", &Operation::x);
  mutations.aliasing("y", &Operation::y, "indices", &Operation::indices);
  for (const auto type : {boolean, u8, i16, u32, u64, f32, c64, e4m3}) {
    mutations.add("indices of " + std::string(to_string(type)), bad, "indices",
                  [type](Operation& op, bench& test_bench) {
                    op.indices = test_bench.make(type, op.indices.value().shape());
                  });
  }
}

operation_mutations gather_list() {
  mutations_of<gather> mutations([](bench& test_bench) -> gather {
    const auto type = copied_type(test_bench);
    return {.x = test_bench.loose(type, {3, 4, 2}),
            .indices = any_indices(test_bench, {2, 5}),
            .axis = test_bench.one_of<std::int64_t>({1, -2}),
            .y = test_bench.loose(type, {3, 2, 5, 2})};
  });
  add_indices(mutations);
  add_axes(mutations);
  mutations.add("x is a number", bad, "axis", [](gather& op, bench& test_bench) {
    op = {.x = test_bench.make(f32, {1}).select(0, 0), .indices = op.indices};
  });
  mutations.add("a result of 9 dimensions", bad, "indices", [](gather& op, bench& test_bench) {
    op.indices = test_bench.repeated(i32, {2, 2, 2, 2, 2, 2, 2});
    op.y = {};
  });
  mutations.add("no element along the axis", bad, "x", [](gather& op, bench& test_bench) {
    op = {.x = test_bench.empty(f32, {3, 0, 2}), .indices = op.indices, .axis = 1};
  });
  mutations.add("2^58 indices", bad, "y", [](gather& op, bench& test_bench) {
    op = {.x = test_bench.make(c128, {3, 2}),
          .indices = test_bench.repeated(i32, {huge, 1 << 27}),
          .axis = 1};
  });
  return std::move(mutations).take();
}

operation_mutations gather_elements_list() {
  mutations_of<gather_elements> mutations([](bench& test_bench) -> gather_elements {
    const auto type = copied_type(test_bench);
    return {.x = test_bench.loose(type, {3, 4, 2}),
            .indices = any_indices(test_bench, {3, 5, 2}),
            .axis = test_bench.one_of<std::int64_t>({1, -2}),
            .y = test_bench.loose(type, {3, 5, 2})};
  });
  add_indices(mutations);
  add_axes(mutations);
  for (const auto& shape : {extents{5}, extents{3, 5}, extents{4, 5, 2}, extents{3, 5, 3},
                            extents{3, 5, 2, 1}, extents{huge, 5, 1 << 20}}) {
    mutations.add("indices of the shape " + to_string(shape), bad, "indices",
                  [shape](gather_elements& op, bench& test_bench) {
                    op.indices = test_bench.repeated(i32, shape);
                    op.y = {};
                  });
  }
  mutations.add("no element along the axis", bad, "x", [](gather_elements& op, bench& test_bench) {
    op = {.x = test_bench.empty(f32, {3, 0, 2}), .indices = op.indices, .axis = 1};
  });
  return std::move(mutations).take();
}

operation_mutations gather_nd_list() {
  mutations_of<gather_nd> mutations([](bench& test_bench) -> gather_nd {
    const auto type = copied_type(test_bench);
    return {.x = test_bench.loose(type, {3, 4, 5, 2}),
            .indices = any_indices(test_bench, {3, 7, 2}),
            .batch_dims = 1,
            .y = test_bench.loose(type, {3, 7, 2})};
  });
  add_indices(mutations);
  for (const auto value : {std::int64_t{-1}, std::int64_t{3}, huge, most, least}) {
    mutations.value(&gather_nd::batch_dims, "batch_dims " + std::to_string(value), "batch_dims",
                    value);
  }
  for (const auto& shape : {extents{3, 7, 4}, extents{3, 7, 0}, extents{3, 7, huge},
                            extents{2, 7, 2}, extents{huge, 7, 2}}) {
    mutations.add("indices of the shape " + to_string(shape), bad, "indices",
                  [shape](gather_nd& op, bench& test_bench) {
                    op.indices = shape[2] == 0 ? test_bench.empty(i32, shape)
                                               : test_bench.repeated(i32, shape);
                    op.y = {};
                  });
  }
  mutations.add("a result of 9 dimensions", bad, "indices", [](gather_nd& op, bench& test_bench) {
    op = {.x = op.x, .indices = test_bench.repeated(i32, {2, 2, 2, 2, 2, 2, 2, 1})};
    op.x = test_bench.repeated(f32, {2, 2, 2});
  });
  mutations.add(
      "no element along an indexed dimension", bad, "x", [](gather_nd& op, bench& test_bench) {
        op = {.x = test_bench.empty(f32, {3, 4, 0, 2}), .indices = op.indices, .batch_dims = 1};
      });
  return std::move(mutations).take();
}

template <class Operation>
void add_updates(mutations_of<Operation>& mutations) {
  add_indices(mutations);
  mutations.required("updates", &Operation::updates);
  mutations.aliasing("y", &Operation::y, "updates", &Operation::updates);
  mutations.add("updates of another type", bad, "updates", [](Operation& op, bench& test_bench) {
    op.updates = test_bench.make(u8, op.updates.value().shape());
  });
  mutations.add("updates with another dimension", bad, "updates",
                [](Operation& op, bench& test_bench) {
                  auto shape = op.updates.value().shape();
                  shape.push_back(1);
                  op.updates = test_bench.make(op.x.value().type(), shape);
                });
  for (const int value : {5, 255}) {
    mutations.value(&Operation::combine, "combine " + std::to_string(value), "combine",
                    static_cast<scatter_combine>(value));
  }
  for (const auto combine : {scatter_combine::minimum, scatter_combine::maximum}) {
    mutations.add("an extremum of complex numbers", bad, "x",
                  [combine](Operation& op, bench& test_bench) {
                    op.x = test_bench.make(c64, op.x.value().shape());
                    op.updates = test_bench.make(c64, op.updates.value().shape());
                    op.y = {};
                    op.combine = combine;
                  });
  }
}

operation_mutations scatter_elements_list() {
  mutations_of<scatter_elements> mutations([](bench& test_bench) -> scatter_elements {
    const auto type = copied_type(test_bench);
    return {.x = test_bench.loose(type, {3, 4, 2}),
            .indices = any_indices(test_bench, {3, 5, 2}),
            .updates = test_bench.loose(type, {3, 5, 2}),
            .axis = test_bench.one_of<std::int64_t>({1, -2}),
            .y = test_bench.loose(type, {3, 4, 2})};
  });
  add_updates(mutations);
  add_axes(mutations);
  for (const auto& shape : {extents{5}, extents{4, 5, 2}, extents{3, 5, 2, 1}}) {
    mutations.add("indices of the shape " + to_string(shape), bad, "indices",
                  [shape](scatter_elements& op, bench& test_bench) {
                    op.indices = test_bench.repeated(i32, shape);
                  });
  }
  mutations.add("no element along the axis", bad, "x", [](scatter_elements& op, bench& test_bench) {
    op.x = test_bench.empty(op.x.value().type(), {3, 0, 2});
    op.y = {};
  });
  return std::move(mutations).take();
}

operation_mutations scatter_nd_list() {
  mutations_of<scatter_nd> mutations([](bench& test_bench) -> scatter_nd {
    const auto type = copied_type(test_bench);
    return {.x = test_bench.loose(type, {3, 4, 2}),
            .indices = any_indices(test_bench, {7, 2}),
            .updates = test_bench.loose(type, {7, 2}),
            .y = test_bench.loose(type, {3, 4, 2})};
  });
  add_updates(mutations);
  for (const auto& shape : {extents{7, 4}, extents{7, 0}, extents{7, huge}}) {
    mutations.add("indices of the shape " + to_string(shape), bad, "indices",
                  [shape](scatter_nd& op, bench& test_bench) {
                    op.indices = shape[1] == 0 ? test_bench.empty(i32, shape)
                                               : test_bench.repeated(i32, shape);
                  });
  }
  mutations.add("updates of 9 dimensions", bad, "indices", [](scatter_nd& op, bench& test_bench) {
    op.x = test_bench.repeated(f32, {2, 2, 2});
    op.indices = test_bench.repeated(i32, {2, 2, 2, 2, 2, 2, 2, 1});
    op.y = {};
  });
  mutations.add("no element along an indexed dimension", bad, "x",
                [](scatter_nd& op, bench& test_bench) {
                  op.x = test_bench.empty(op.x.value().type(), {3, 0, 2});
                  op.y = {};
                });
  return std::move(mutations).take();
}

}  // namespace

std::vector<operation_mutations> indexing_mutations() {
  std::vector<operation_mutations> all;
  all.push_back(gather_list());
  all.push_back(gather_elements_list());
  all.push_back(gather_nd_list());
  all.push_back(scatter_elements_list());
  all.push_back(scatter_nd_list());
  return all;
}

}  // namespace sluice::test
