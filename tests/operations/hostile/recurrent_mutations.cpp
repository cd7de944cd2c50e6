// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/hostile/mutations.hpp"

#include <sluice/operations/recurrent.hpp>

#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using enum element_type;

template <class Operation>
constexpr bool is_lstm = std::is_same_v<Operation, lstm>;

template <class Operation>
constexpr std::int64_t gates_of = is_lstm<Operation>               ? 4
                                  : std::is_same_v<Operation, gru> ? 3
                                                                   : 1;

template <class Operation>
Operation valid_layer(bench& test_bench) {
  const auto type = test_bench.one_of({f16, bf16, f32, f64});
  const auto steps = test_bench.extent();
  const auto batch = test_bench.extent();
  const auto inputs = test_bench.extent();
  const auto hidden = test_bench.extent();
  const auto rows = gates_of<Operation> * hidden;
  const bool is_time_major = test_bench.coin();
  const auto state = is_time_major ? extents{2, batch, hidden} : extents{batch, 2, hidden};
  Operation o{};
  o.x = test_bench.loose(
      type, is_time_major ? extents{steps, batch, inputs} : extents{batch, steps, inputs});
  o.w = test_bench.loose(type, {2, rows, inputs});
  o.r = test_bench.loose(type, {2, rows, hidden});
  o.input_bias = test_bench.loose(type, {2, rows});
  o.recurrent_bias = test_bench.loose(type, {2, rows});
  o.lengths = test_bench.make(test_bench.one_of({i32, i64}), {batch});
  o.initial_h = test_bench.loose(type, state);
  o.direction = recurrent_direction::bidirectional;
  o.layout = is_time_major ? sequence_layout::time_major : sequence_layout::batch_major;
  o.y = test_bench.loose(
      type, is_time_major ? extents{steps, 2, batch, hidden} : extents{batch, steps, 2, hidden});
  o.y_h = test_bench.loose(type, state);
  if constexpr (is_lstm<Operation>) {
    o.initial_c = test_bench.loose(type, state);
    o.peepholes = test_bench.loose(type, {2, 3 * hidden});
    o.y_c = test_bench.loose(type, state);
  }
  return o;
}

/// What is wrong with an operand of the type of X.
template <class Operation>
void add_operand(mutations_of<Operation>& mutations, const std::string& name,
                 operand Operation::*member) {
  mutations.memory(name, member);
  mutations.aliasing("y", &Operation::y, name, member);
  mutations.add(name + " of another type", bad, name, [member](Operation& o, bench& test_bench) {
    const auto type = o.x.value().type() == f32 ? f16 : f32;
    o.*member = test_bench.make(type, (o.*member).value().shape());
  });
  mutations.add(name + " with one more element", bad, name,
                [member](Operation& o, bench& test_bench) {
                  auto shape = (o.*member).value().shape();
                  ++shape[shape.size() - 1];
                  o.*member = test_bench.make(o.x.value().type(), shape);
                });
  mutations.add(name + " of one direction", bad, name, [member](Operation& o, bench& test_bench) {
    auto shape = (o.*member).value().shape();
    const bool is_second = shape.size() == 3 && shape[0] != 2;
    shape[is_second ? 1 : 0] = 1;
    o.*member = test_bench.make(o.x.value().type(), shape);
  });
  mutations.add(name + " with another dimension", bad, name,
                [member](Operation& o, bench& test_bench) {
                  auto shape = (o.*member).value().shape();
                  shape.push_back(1);
                  o.*member = test_bench.make(o.x.value().type(), shape);
                });
}
template <class Operation>
void add_function(mutations_of<Operation>& mutations, const std::string& name,
                  activation Operation::*member) {
  for (const int value : {7, 255}) {
    mutations.value(member, name + " " + std::to_string(value), name,
                    static_cast<activation>(value));
  }
}

template <class Operation>
operation_mutations mutations_of_layer() {
  mutations_of<Operation> mutations(valid_layer<Operation>);
  mutations.required("x", &Operation::x);
  mutations.aliasing("y", &Operation::y, "x", &Operation::x);
  for (const auto type : {boolean, u8, i64, c64, e4m3}) {
    mutations.add("x of " + std::string(to_string(type)), bad, "x",
                  [type](Operation& o, bench& test_bench) {
                    o.x = test_bench.make(type, o.x.value().shape());
                  });
  }
  mutations.add("x of two dimensions", bad, "x", [](Operation& o, bench& test_bench) {
    o.x = test_bench.make(o.x.value().type(), {4, 4});
  });
  mutations.add("rows of R that overflow", bad, "r", [](Operation& o, bench& test_bench) {
    o.r = test_bench.empty(o.x.value().type(), {2, 0, most});
  });
  for (const auto& [name, member] :
       {std::pair{"w", &Operation::w}, std::pair{"r", &Operation::r}}) {
    mutations.value(member, std::string("no ") + name, name, operand());
  }
  add_operand(mutations, "w", &Operation::w);
  add_operand(mutations, "r", &Operation::r);
  add_operand(mutations, "input_bias", &Operation::input_bias);
  add_operand(mutations, "recurrent_bias", &Operation::recurrent_bias);
  add_operand(mutations, "initial_h", &Operation::initial_h);
  mutations.memory("lengths", &Operation::lengths);
  mutations.aliasing("y_h", &Operation::y_h, "lengths", &Operation::lengths);
  for (const auto type : {boolean, u8, u64, f32}) {
    mutations.add("lengths of " + std::string(to_string(type)), bad, "lengths",
                  [type](Operation& o, bench& test_bench) {
                    o.lengths = test_bench.make(type, o.lengths.value().shape());
                  });
  }
  mutations.add("one more length", bad, "lengths", [](Operation& o, bench& test_bench) {
    o.lengths = test_bench.make(i32, {o.lengths.value().shape()[0] + 1});
  });
  mutations.output("y", &Operation::y, c64);
  mutations.output("y_h", &Operation::y_h, c64);
  mutations.aliasing("y_h", &Operation::y_h, "x", &Operation::x);
  mutations.aliasing("y_h", &Operation::y_h, "initial_h", &Operation::initial_h);
  mutations.aliasing("y", &Operation::y, "y_h", &Operation::y_h);
  for (const int value : {3, 255}) {
    mutations.value(&Operation::direction, "direction " + std::to_string(value), "direction",
                    static_cast<recurrent_direction>(value));
  }
  for (const int value : {2, 255}) {
    mutations.value(&Operation::layout, "layout " + std::to_string(value), "layout",
                    static_cast<sequence_layout>(value));
  }
  for (const double value : {-1e-30, -1.0, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    mutations.value(&Operation::clip, "clip " + std::to_string(value), "clip", value);
  }
  if constexpr (is_lstm<Operation>) {
    add_operand(mutations, "initial_c", &Operation::initial_c);
    add_operand(mutations, "peepholes", &Operation::peepholes);
    mutations.output("y_c", &Operation::y_c, c64);
    mutations.aliasing("y_c", &Operation::y_c, "initial_h", &Operation::initial_h);
    add_function(mutations, "cell_activation", &Operation::cell_activation);
    add_function(mutations, "output_activation", &Operation::output_activation);
  }
  if constexpr (requires { &Operation::order; }) {
    mutations.value(&Operation::order, "order 2", "order", static_cast<gate_order>(2));
    add_function(mutations, "gate_activation", &Operation::gate_activation);
  }
  if constexpr (requires { &Operation::hidden_activation; }) {
    add_function(mutations, "hidden_activation", &Operation::hidden_activation);
  }
  if constexpr (requires { &Operation::activation; }) {
    add_function(mutations, "activation", &Operation::activation);
  }
  return std::move(mutations).take();
}

}  // namespace

std::vector<operation_mutations> recurrent_mutations() {
  std::vector<operation_mutations> all;
  all.push_back(mutations_of_layer<lstm>());
  all.push_back(mutations_of_layer<gru>());
  all.push_back(mutations_of_layer<rnn>());
  return all;
}

}  // namespace sluice::test
