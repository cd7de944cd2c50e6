// SPDX-License-Identifier: Apache-2.0
// Operations that arrange elements: concatenations and sorts.
#include "tests/operations/hostile/mutations.hpp"
#include "tests/operations/hostile/shapes.hpp"

#include <sluice/operations/concatenate.hpp>
#include <sluice/operations/histogram.hpp>
#include <sluice/operations/sort.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using enum element_type;

/// Adds what is wrong with a list of at least two tensors.
template <class Operation>
void add_list(mutations_of<Operation>& mutations) {
  const auto set_last = [&](const std::string& description, errc code, auto wrong) {
    mutations.add(description, code, "x[2]", [wrong](Operation& op, bench& test_bench) {
      op.x.back() = wrong(op.x.back().value(), test_bench);
    });
  };
  set_last("no last x", bad, [](const tensor&, bench&) { return operand(); });
  set_last("stale last x", errc::stale_ref,
           [](const tensor& x, bench& test_bench) { return test_bench.stale(x); });
  set_last("foreign last x", bad,
           [](const tensor& x, bench& test_bench) { return test_bench.foreign(x); });
  set_last("last x of another type", bad,
           [](const tensor& x, bench& test_bench) { return test_bench.make(u64, x.shape()); });
  set_last("last x with another dimension", bad, [](const tensor& x, bench& test_bench) {
    auto shape = x.shape();
    shape.push_back(1);
    return test_bench.make(x.type(), shape);
  });
  mutations.add("no tensors", bad, "x", [](Operation& op, bench&) { op.x.clear(); });
  mutations.add("too many tensors", bad, "x",
                [](Operation& op, bench&) { op.x.assign(max_operands, op.x.front()); });
  for (const auto value : {std::int64_t{1} << 31U, most, least}) {
    mutations.value(&Operation::axis, "axis " + std::to_string(value), "axis", value);
  }
}

/// Three tensors of one shape.
template <class Operation>
Operation valid_list(bench& test_bench, element_type type, const extents& shape) {
  Operation operation;
  for (int i = 0; i < 3; ++i) operation.x.emplace_back(test_bench.loose(type, shape));
  return operation;
}

concatenate valid_concatenate(bench& test_bench) {
  auto shape = any_shape(test_bench);
  const auto type = test_bench.one_of({boolean, u8, i16, f16, f32, f64, c64, c128});
  auto operation = valid_list<concatenate>(test_bench, type, shape);
  operation.axis = static_cast<std::int64_t>(shape.size()) - 1;
  shape[shape.size() - 1] *= 3;
  operation.y = test_bench.loose(type, shape);
  return operation;
}
operation_mutations concatenate_list() {
  mutations_of<concatenate> mutations(valid_concatenate);
  mutations.output("y", &concatenate::y, i32);
  add_list(mutations);
  mutations.add("an x is a part of y", bad, "y", [](concatenate& op, bench&) {
    const auto& shape = op.x[1].value().shape();
    const auto last = shape.size() - 1;
    op.x[1] = op.y.value().slice(last, 0, shape[last]);
  });
  mutations.add("an x of another extent", bad, "x[1]", [](concatenate& op, bench& test_bench) {
    op.x = {test_bench.make(f32, {2, 3}), test_bench.make(f32, {2, 4})};
    op.axis = 0;
    op.y = {};
  });
  mutations.add("extents that overflow", bad, "x[1]", [](concatenate& op, bench& test_bench) {
    op.x = {test_bench.repeated(u8, {most}), test_bench.repeated(u8, {most})};
    op.axis = 0;
    op.y = {};
  });
  mutations.add("2^62 elements that are one", errc::out_of_memory, "x[0]",
                [](concatenate& op, bench& test_bench) {
                  op.x = {test_bench.repeated(u8, {std::int64_t{1} << 61U}),
                          test_bench.repeated(u8, {std::int64_t{1} << 61U})};
                  op.axis = 0;
                  op.y = {};
                });
  return std::move(mutations).take();
}

stack valid_stack(bench& test_bench) {
  auto shape = any_shape(test_bench);
  const auto type = test_bench.one_of({boolean, u8, i16, f16, f32, f64, c64, c128});
  auto operation = valid_list<stack>(test_bench, type, shape);
  operation.axis = -1;
  shape.push_back(3);
  operation.y = test_bench.loose(type, shape);
  return operation;
}
operation_mutations stack_list() {
  mutations_of<stack> mutations(valid_stack);
  mutations.output("y", &stack::y, i32);
  add_list(mutations);
  mutations.add("an x is a part of y", bad, "y", [](stack& op, bench&) {
    op.x[1] = op.y.value().select(op.y.value().rank() - 1, 0);
  });
  mutations.add("an x of another extent", bad, "x[1]", [](stack& op, bench& test_bench) {
    auto shape = op.x[1].value().shape();
    ++shape[0];
    op.x[1] = test_bench.make(op.x[1].value().type(), shape);
  });
  return std::move(mutations).take();
}

/// Adds what is wrong with any sort.
template <class Operation>
void add_sorted(mutations_of<Operation>& mutations) {
  mutations.required("x", &Operation::x);
  mutations.output("values", &Operation::values, c64);
  mutations.output("indices", &Operation::indices, i32);
  mutations.aliasing("values", &Operation::values, "x", &Operation::x);
  mutations.aliasing("indices", &Operation::indices, "x", &Operation::x);
  mutations.aliasing("values", &Operation::values, "indices", &Operation::indices);
  mutations.add("complex numbers", bad, "x", [](Operation& op, bench& test_bench) {
    op.x = test_bench.make(test_bench.one_of({c64, c128}), op.x.value().shape());
  });
  mutations.add("a number", bad, "x", [](Operation& op, bench& test_bench) {
    op.x = test_bench.make(f32, {1}).select(0, 0);
  });
  for (const auto value :
       {std::int64_t{8}, std::int64_t{-9}, std::int64_t{1} << 31U, most, least}) {
    mutations.value(&Operation::axis, "axis " + std::to_string(value), "axis", value);
  }
}

template <class Operation>
Operation valid_sorted(bench& test_bench) {
  const auto shape = any_shape(test_bench);
  const auto type = test_bench.one_of({boolean, u8, i16, u32, i64, f16, bf16, f32, f64});
  Operation operation;
  operation.x = test_bench.loose(type, shape);
  operation.values = test_bench.loose(type, shape);
  operation.indices = test_bench.loose(i64, shape);
  return operation;
}
operation_mutations sort_list() {
  mutations_of<sort> mutations(valid_sorted<sort>);
  add_sorted(mutations);
  return std::move(mutations).take();
}
operation_mutations top_k_list() {
  mutations_of<top_k> mutations([](bench& test_bench) {
    auto operation = valid_sorted<top_k>(test_bench);
    const auto& shape = operation.x.value().shape();
    operation.k = shape[shape.size() - 1];
    return operation;
  });
  add_sorted(mutations);
  mutations.value(&top_k::k, "no k", "k", top_k::not_given);
  for (const auto value : {std::int64_t{-1}, most, least + 1}) {
    mutations.value(&top_k::k, "k " + std::to_string(value), "k", value);
  }
  mutations.add("k above the extent", bad, "k", [](top_k& op, bench&) { ++op.k; });
  mutations.add("more work than a device does", errc::unsupported, "top_k",
                [](top_k& op, bench& test_bench) {
                  op = {.x = test_bench.repeated(f32, {std::int64_t{1} << 60U}), .k = 1};
                });
  mutations.add("more passes than a number counts", errc::unsupported, "top_k",
                [](top_k& op, bench& test_bench) {
                  op = {.x = test_bench.repeated(u8, {(std::int64_t{1} << 62U) + 1}), .k = 1025};
                });
  return std::move(mutations).take();
}

operation_mutations histogram_list() {
  mutations_of<histogram> mutations([](bench& test_bench) -> histogram {
    return {.x = test_bench.loose(test_bench.one_of({i8, u16, bf16, f32, u64, f64}),
                                  any_shape(test_bench)),
            .bins = 5,
            .low = 0,
            .high = 1,
            .y = test_bench.loose(i64, {5})};
  });
  mutations.required("x", &histogram::x);
  mutations.output("y", &histogram::y, u8);
  mutations.aliasing("y", &histogram::y, "x", &histogram::x);
  for (const auto type : {boolean, c64, c128, e4m3}) {
    mutations.add("x of type " + std::string(to_string(type)), bad, "x",
                  [type](histogram& op, bench& test_bench) {
                    op.x = test_bench.make(type, op.x.value().shape());
                  });
  }
  for (const auto value : {std::int64_t{0}, std::int64_t{-1}, least}) {
    mutations.value(&histogram::bins, std::to_string(value) + " bins", "bins", value);
  }
  mutations.add("2^63 - 1 bins", bad, "y", [](histogram& op, bench&) {
    op.bins = most;
    op.y = {};
  });
  mutations.add("2^50 bins", errc::out_of_memory, "y", [](histogram& op, bench&) {
    op.bins = std::int64_t{1} << 50U;
    op.y = {};
  });
  mutations.value(&histogram::low, "no lower edge", "low", {});
  mutations.value(&histogram::high, "no upper edge", "high", {});
  mutations.value(&histogram::low, "from NaN", "low", std::numeric_limits<double>::quiet_NaN());
  mutations.value(&histogram::high, "to infinity", "high", std::numeric_limits<double>::infinity());
  mutations.value(&histogram::high, "an empty range", "high", 0);
  mutations.value(&histogram::high, "a negative range", "high", -1);
  mutations.add("a range that overflows", bad, "high", [](histogram& op, bench&) {
    op.low = -1e308;
    op.high = 1e308;
  });
  mutations.add("more work than a device does", errc::unsupported, "histogram",
                [](histogram& op, bench& test_bench) {
                  op.x = test_bench.repeated(f32, {std::int64_t{1} << 60U});
                });
  return std::move(mutations).take();
}

}  // namespace

std::vector<operation_mutations> arrangement_mutations() {
  return {concatenate_list(), stack_list(), sort_list(), top_k_list(), histogram_list()};
}

}  // namespace sluice::test
