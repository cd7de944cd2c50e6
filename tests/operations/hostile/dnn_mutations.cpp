// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/hostile/mutations.hpp"
#include "tests/operations/hostile/real_operands.hpp"

#include <sluice/operations/attention.hpp>
#include <sluice/operations/local_response_norm.hpp>
#include <sluice/operations/non_maximum_suppression.hpp>
#include <sluice/operations/normalization.hpp>
#include <sluice/operations/rotary_embedding.hpp>

#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using enum element_type;

template <class Operation>
void add_axis(mutations_of<Operation>& mutations) {
  for (const auto value :
       {std::int64_t{3}, std::int64_t{-4}, std::int64_t{1} << 31U, most, least}) {
    mutations.value(&Operation::axis, "axis " + std::to_string(value), "axis", value);
  }
}
template <class Operation>
void add_epsilon(mutations_of<Operation>& mutations) {
  for (const double value : {-1e-30, -1.0, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    mutations.value(&Operation::epsilon, "epsilon " + std::to_string(value), "epsilon", value);
  }
}
/// What is wrong with a parameter of a normalization: one number for each channel or element.
template <class Operation>
void add_parameter(mutations_of<Operation>& mutations, const std::string& name,
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
  mutations.add(name + " with another dimension", bad, name,
                [member](Operation& o, bench& test_bench) {
                  auto shape = (o.*member).value().shape();
                  shape.push_back(7);
                  o.*member = test_bench.make(o.x.value().type(), shape);
                });
  mutations.add(name + " of 2^61 elements", bad, name, [member](Operation& o, bench& test_bench) {
    o.*member = test_bench.repeated(o.x.value().type(), {(std::int64_t{1} << 59U) - 1});
  });
}

template <class Operation>
operation_mutations axis_mutations() {
  mutations_of<Operation> mutations([](bench& test_bench) {
    const auto type = any_real(test_bench);
    const auto shape = test_bench.shape(3);
    Operation o{.x = test_bench.loose(type, shape), .axis = test_bench.extent(-3, 2)};
    o.y = test_bench.loose(type, shape);
    return o;
  });
  add_operands(mutations);
  add_axis(mutations);
  if constexpr (requires { &Operation::p; }) {
    for (const auto value : {std::int64_t{0}, std::int64_t{3}, std::int64_t{-1}, most, least}) {
      mutations.value(&Operation::p, "p is " + std::to_string(value), "p", value);
    }
  }
  return std::move(mutations).take();
}

template <class Operation>
operation_mutations layer_mutations() {
  mutations_of<Operation> mutations([](bench& test_bench) {
    const auto type = any_real(test_bench);
    const auto shape = test_bench.shape(3);
    Operation o{.x = test_bench.loose(type, shape)};
    o.scale = test_bench.loose(type, {shape[2]});
    if constexpr (requires { &Operation::bias; }) o.bias = test_bench.loose(type, {shape[2]});
    o.axis = test_bench.extent(-3, 2);
    o.y = test_bench.loose(type, shape);
    return o;
  });
  add_operands(mutations);
  add_axis(mutations);
  add_epsilon(mutations);
  add_parameter(mutations, "scale", &Operation::scale);
  if constexpr (requires { &Operation::bias; }) add_parameter(mutations, "bias", &Operation::bias);
  return std::move(mutations).take();
}

template <class Operation>
operation_mutations channel_mutations(
    std::initializer_list<std::pair<const char*, operand Operation::*>> parameters) {
  const std::vector<std::pair<std::string, operand Operation::*>> all(parameters.begin(),
                                                                      parameters.end());
  mutations_of<Operation> mutations([all](bench& test_bench) {
    const auto type = any_real(test_bench);
    const auto shape = test_bench.shape(3);
    Operation o{};
    o.x = test_bench.loose(type, shape);
    for (const auto& parameter : all) {
      o.*parameter.second = test_bench.loose(type, {shape[1]});
    }
    o.y = test_bench.loose(type, shape);
    return o;
  });
  add_operands(mutations);
  add_epsilon(mutations);
  for (const auto& [name, member] : all) add_parameter(mutations, name, member);
  mutations.add("x without channels", bad, "x", [](Operation& o, bench& test_bench) {
    o.x = test_bench.make(f32, {4});
    o.y = {};
  });
  if constexpr (requires { &Operation::groups; }) {
    for (const auto value : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{7}, most, least}) {
      mutations.value(&Operation::groups, std::to_string(value) + " groups", "groups", value);
    }
  } else {
    mutations.value(&Operation::mean, "no mean", "mean", operand());
    mutations.value(&Operation::variance, "no variance", "variance", operand());
  }
  return std::move(mutations).take();
}

operation_mutations response_mutations() {
  using norm = local_response_norm;
  mutations_of<norm> mutations([](bench& test_bench) -> norm {
    const auto type = test_bench.one_of({f16, bf16, f32});
    const auto shape = test_bench.shape(4);
    return {.x = test_bench.loose(type, shape),
            .size = test_bench.extent(1, 5),
            .y = test_bench.loose(type, shape)};
  });
  add_operands(mutations);
  for (const auto value : {std::int64_t{0}, std::int64_t{-1}, least}) {
    mutations.value(&norm::size, "size " + std::to_string(value), "size", value);
  }
  const std::vector<std::pair<std::string, double norm::*>> numbers{
      {"alpha", &norm::alpha}, {"beta", &norm::beta}, {"bias", &norm::bias}};
  for (const auto& [name, member] : numbers) {
    for (const double value : {std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN(), 1e200}) {
      mutations.value(member, name + " is " + std::to_string(value), name, value);
    }
  }
  return std::move(mutations).take();
}

operation_mutations rotary_mutations() {
  mutations_of<rotary_embedding> mutations([](bench& test_bench) -> rotary_embedding {
    const auto type = any_real(test_bench);
    const auto rotated = 2 * test_bench.extent(2, 3);
    const extents x{test_bench.extent(), test_bench.extent(), test_bench.extent(),
                    rotated + test_bench.extent(0, 2)};
    const auto rows = test_bench.extent(2, 4);
    return {.x = test_bench.loose(type, x),
            .cos = test_bench.loose(type, {rows, rotated / 2}),
            .sin = test_bench.loose(type, {rows, rotated / 2}),
            .positions = test_bench.loose(i64, {x[0], x[2]}),
            .heads = test_bench.coin() ? x[1] : 0,
            .rotated = rotated,
            .interleaved = test_bench.coin(),
            .y = test_bench.loose(type, x)};
  });
  add_operands(mutations);
  add_parameter(mutations, "cos", &rotary_embedding::cos);
  add_parameter(mutations, "sin", &rotary_embedding::sin);
  mutations.value(&rotary_embedding::cos, "no cosines", "cos", operand());
  mutations.value(&rotary_embedding::sin, "no sines", "sin", operand());
  mutations.memory("positions", &rotary_embedding::positions);
  for (const auto type : {u8, i32, u64, f32}) {
    mutations.add("positions of " + std::string(to_string(type)), bad, "positions",
                  [type](rotary_embedding& o, bench& test_bench) {
                    o.positions = test_bench.make(type, o.positions.value().shape());
                  });
  }
  mutations.add("positions of one more element", bad, "positions",
                [](rotary_embedding& o, bench& test_bench) {
                  const auto shape = o.positions.value().shape();
                  o.positions = test_bench.make(i64, {shape[0], shape[1] + 1});
                });
  mutations.add("one more row of sines", bad, "sin", [](rotary_embedding& o, bench& test_bench) {
    const auto shape = o.sin.value().shape();
    o.sin = test_bench.make(o.x.value().type(), {shape[0] + 1, shape[1]});
  });
  for (const auto value : {std::int64_t{7}, std::int64_t{-1}, most, least}) {
    mutations.value(&rotary_embedding::heads, std::to_string(value) + " heads", "heads", value);
    mutations.value(&rotary_embedding::rotated, std::to_string(value) + " rotated", "rotated",
                    value);
  }
  return std::move(mutations).take();
}

non_maximum_suppression valid_suppression(bench& test_bench) {
  const auto type = test_bench.one_of({f16, bf16, f32, f64});
  const auto scores = test_bench.shape(3);
  const auto boxes = scores[2];
  return {.boxes = test_bench.loose(type, {scores[0], boxes, 4}),
          .scores = test_bench.loose(type, scores),
          .max_output_boxes_per_class = boxes,
          .selected = test_bench.loose(i64, {scores[0] * scores[1] * boxes, 3}),
          .count = test_bench.make(i64, {1})};
}

operation_mutations suppression_mutations() {
  using operation = non_maximum_suppression;
  mutations_of<operation> mutations(valid_suppression);
  mutations.required("boxes", &operation::boxes);
  mutations.required("scores", &operation::scores);
  mutations.output("selected", &operation::selected, i32);
  mutations.memory("count", &operation::count);
  mutations.aliasing("selected", &operation::selected, "boxes", &operation::boxes);
  mutations.aliasing("selected", &operation::selected, "scores", &operation::scores);
  mutations.aliasing("count", &operation::count, "scores", &operation::scores);
  mutations.add("two counts", bad, "count",
                [](operation& o, bench& test_bench) { o.count = test_bench.make(i64, {2}); });
  for (const auto type : {boolean, u8, i64, c64, e4m3}) {
    mutations.add("boxes of " + std::string(to_string(type)), bad, "boxes",
                  [type](operation& o, bench& test_bench) {
                    o.boxes = test_bench.make(type, o.boxes.value().shape());
                  });
    mutations.add("scores of " + std::string(to_string(type)), bad, "scores",
                  [type](operation& o, bench& test_bench) {
                    o.scores = test_bench.make(type, o.scores.value().shape());
                  });
  }
  mutations.add("boxes of five numbers", bad, "boxes", [](operation& o, bench& test_bench) {
    const auto shape = o.boxes.value().shape();
    o.boxes = test_bench.make(o.boxes.value().type(), {shape[0], shape[1], 5});
  });
  mutations.add("one more box", bad, "scores", [](operation& o, bench& test_bench) {
    const auto shape = o.boxes.value().shape();
    o.boxes = test_bench.make(o.boxes.value().type(), {shape[0], shape[1] + 1, 4});
  });
  mutations.add("2^61 scores", bad, "selected", [](operation& o, bench& test_bench) {
    o = {.boxes = test_bench.repeated(f16, {huge, huge / 8, 4}),
         .scores = test_bench.repeated(f16, {huge, 1, huge / 8}),
         .max_output_boxes_per_class = most};
  });
  for (const auto value : {std::int64_t{-1}, least}) {
    mutations.value(&operation::max_output_boxes_per_class, std::to_string(value) + " of a class",
                    "max_output_boxes_per_class", value);
    mutations.value(&operation::max_output_boxes, std::to_string(value) + " rows",
                    "max_output_boxes", value);
  }
  for (const double value : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    mutations.value(&operation::iou_threshold, "threshold " + std::to_string(value),
                    "iou_threshold", value);
  }
  mutations.value(&operation::score_threshold, "a threshold of NaN", "score_threshold",
                  std::numeric_limits<double>::quiet_NaN());
  return std::move(mutations).take();
}

operation_mutations attention_mutations() {
  mutations_of<attention> mutations([](bench& test_bench) -> attention {
    const auto type = test_bench.one_of({f16, bf16, f32});
    const auto batch = test_bench.extent();
    const auto shared = test_bench.extent(2, 3);
    const auto heads = 2 * shared;
    const auto queries = test_bench.extent(3, 5);
    const auto keys = test_bench.extent(3, 5);
    const auto size = test_bench.extent(3, 5);
    return {.q = test_bench.loose(type, {batch, heads, queries, size}),
            .k = test_bench.loose(type, {batch, shared, keys, size}),
            .v = test_bench.loose(type, {batch, shared, keys, size + 1}),
            .mask = test_bench.loose(type, {queries, keys}),
            .y = test_bench.loose(type, {batch, heads, queries, size + 1})};
  });
  mutations.output("y", &attention::y, c64);
  mutations.memory("mask", &attention::mask);
  mutations.aliasing("y", &attention::y, "mask", &attention::mask);
  for (const auto& [name, member] : {std::pair{"q", &attention::q}, std::pair{"k", &attention::k},
                                     std::pair{"v", &attention::v}}) {
    const std::string text = name;
    mutations.required(text, member);
    mutations.aliasing("y", &attention::y, text, member);
    for (const auto type : {boolean, u8, i64, f64, c64, e4m3}) {
      mutations.add(text + " of " + std::string(to_string(type)), bad, text,
                    [member = member, type](attention& a, bench& test_bench) {
                      a.*member = test_bench.make(type, (a.*member).value().shape());
                    });
    }
    mutations.add(text + " with another dimension", bad, text,
                  [member = member](attention& a, bench& test_bench) {
                    auto shape = (a.*member).value().shape();
                    shape.push_back(1);
                    a.*member = test_bench.make(a.q.value().type(), shape);
                  });
  }
  for (const std::size_t dimension : {0, 1, 3}) {
    mutations.add("k longer along dimension " + std::to_string(dimension), bad,
                  dimension == 1 ? "v" : "k", [dimension](attention& a, bench& test_bench) {
                    auto shape = a.k.value().shape();
                    shape[dimension] *= 2;
                    a.k = test_bench.make(a.q.value().type(), shape);
                  });
  }
  mutations.add("values of one more key", bad, "v", [](attention& a, bench& test_bench) {
    auto shape = a.v.value().shape();
    ++shape[2];
    a.v = test_bench.make(a.q.value().type(), shape);
  });
  mutations.add("one more head of q", bad, "k", [](attention& a, bench& test_bench) {
    auto shape = a.q.value().shape();
    ++shape[1];
    a.q = test_bench.make(a.k.value().type(), shape);
    a.y = {};
  });
  mutations.add("a mask of u8", bad, "mask", [](attention& a, bench& test_bench) {
    a.mask = test_bench.make(u8, a.mask.value().shape());
  });
  mutations.add("a mask of one more key", bad, "mask", [](attention& a, bench& test_bench) {
    a.mask = test_bench.make(boolean, {a.k.value().shape()[2] + 1});
  });
  for (const auto value :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), 1e300}) {
    mutations.value(&attention::scale, "scale " + std::to_string(value), "scale", value);
  }
  for (const int value : {3, 255}) {
    mutations.value(&attention::causal, "causal " + std::to_string(value), "causal",
                    static_cast<causal_mask>(value));
  }
  return std::move(mutations).take();
}

}  // namespace

std::vector<operation_mutations> dnn_mutations() {
  std::vector<operation_mutations> all;
  all.push_back(axis_mutations<softmax>());
  all.push_back(axis_mutations<log_softmax>());
  all.push_back(axis_mutations<lp_norm>());
  all.push_back(layer_mutations<layer_norm>());
  all.push_back(layer_mutations<rms_norm>());
  all.push_back(
      channel_mutations<group_norm>({{"scale", &group_norm::scale}, {"bias", &group_norm::bias}}));
  all.push_back(channel_mutations<batch_norm>({{"mean", &batch_norm::mean},
                                               {"variance", &batch_norm::variance},
                                               {"scale", &batch_norm::scale},
                                               {"bias", &batch_norm::bias}}));
  all.push_back(response_mutations());
  all.push_back(suppression_mutations());
  all.push_back(rotary_mutations());
  all.push_back(attention_mutations());
  return all;
}

}  // namespace sluice::test
