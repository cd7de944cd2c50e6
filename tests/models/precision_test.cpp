// SPDX-License-Identifier: Apache-2.0
#include "tests/models/model_device_test.hpp"
#include "tests/models/random_graph.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

using numbers = std::vector<double>;

constexpr model_precision narrow_precisions[] = {model_precision::f16, model_precision::bf16};

element_type type_of(model_precision precision) {
  return precision == model_precision::f16 ? element_type::f16 : element_type::bf16;
}
/// Half of the distance of neighbouring numbers, relative to them.
double rounding_of(model_precision precision) {
  return precision == model_precision::f16 ? 0x1p-11 : 0x1p-8;
}
numbers as_numbers(const host_tensor& x) {
  const auto wide = x.to(element_type::f64);
  return wide.to_vector<double>();
}
/// The numbers, rounded to a type.
numbers rounded(const host_tensor& x, element_type type) {
  return as_numbers(x.to(type));
}

class precision : public model_device_test {
 protected:
  host_tensors run_at(const model& what, model_precision at, const tensor_map& inputs) {
    return run(what.program_for(specs_of(inputs), {}, {.precision = at}), inputs);
  }
  /// Random numbers, as a constant of the model and for the reference.
  host_tensor parameter(onnx_graph& g, const char* name, const std::vector<std::int64_t>& shape) {
    const auto x = random_tensor(extents(shape));
    g.constant(name, x.to_vector<float>(), shape);
    return x;
  }
  /// ‖found - expected‖ / ‖expected‖
  static double relative_error(const host_tensor& found, const numbers& expected) {
    const auto y = as_numbers(found);
    double squares = 0;
    double all = 0;
    EXPECT_EQ(y.size(), expected.size());
    for (std::size_t i = 0; i < y.size(); ++i) {
      squares += (y[i] - expected[i]) * (y[i] - expected[i]);
      all += expected[i] * expected[i];
    }
    return std::sqrt(squares / all);
  }
};

numbers product(const numbers& a, const numbers& b, std::size_t m, std::size_t n, std::size_t k) {
  numbers y(m * n);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t l = 0; l < k; ++l) y[i * n + j] += a[i * k + l] * b[l * n + j];
    }
  }
  return y;
}

// The operands are rounded, the sum is of f32, and so is the result.
TEST_P(precision, rounds_the_operands_of_products) {
  for (const auto at : narrow_precisions) {
    const auto m = between(1, 40);
    const auto n = between(1, 40);
    const auto k = between(1, 200);
    onnx_graph g;
    g.input("x", {m, k}).output("y").node("MatMul", {"x", "w"}, {"y"});
    const auto w = parameter(g, "w", {k, n});
    const auto x = random_tensor({m, k});
    const auto network = g.make();
    const auto type = type_of(at);
    const auto found = run_at(network, at, {{"x", x}});
    ASSERT_EQ(found[0].type(), element_type::f32);
    EXPECT_EQ(found[0].shape(), (extents{m, n}));
    const auto expected = product(rounded(x, type), rounded(w, type), static_cast<std::size_t>(m),
                                  static_cast<std::size_t>(n), static_cast<std::size_t>(k));
    EXPECT_LT(relative_error(found[0], expected), 1.1 * rounding_of(at))
        << m << ' ' << n << ' ' << k;
    // Elements of the result have the type of 16 bits.
    EXPECT_EQ(as_numbers(found[0]), rounded(found[0], type));
    EXPECT_LT(relative_error(run_at(network, model_precision::original, {{"x", x}})[0],
                             product(as_numbers(x), as_numbers(w), static_cast<std::size_t>(m),
                                     static_cast<std::size_t>(n), static_cast<std::size_t>(k))),
              1e-5);
  }
}

TEST_P(precision, allows_tf32_in_products) {
  onnx_graph g;
  g.input("x", {64, 64}).output("y").node("MatMul", {"x", "w"}, {"y"});
  const auto w = parameter(g, "w", {64, 48});
  const auto x = random_tensor({64, 64});
  const auto found = run_at(g.make(), model_precision::tf32, {{"x", x}});
  const auto expected = product(as_numbers(x), as_numbers(w), 64, 48, 64);
  EXPECT_LT(relative_error(found[0], expected), GetParam() == "host" ? 1e-5 : 1e-3);
}

// A small network with everything that images and words need.
TEST_P(precision, changes_a_network_little) {
  onnx_graph g;
  g.input("x", {-1, 3, 8, 8}).output("scores").output("largest");
  parameter(g, "w1", {8, 3, 3, 3});
  parameter(g, "b1", {8});
  parameter(g, "w2", {8, 8, 3, 3});
  parameter(g, "scale", {8});
  parameter(g, "w3", {8, 10});
  parameter(g, "b3", {10});
  g.constant("half", {0.5F}, {});
  const std::vector<std::int64_t> pads{1, 1, 1, 1};
  g.node("Mul", {"x", "half"}, {"x.half"});
  g.node("Conv", {"x.half", "w1", "b1"}, {"c1"}).with("pads", pads);
  g.node("Relu", {"c1"}, {"r1"});
  g.node("Conv", {"r1", "w2"}, {"c2"}).with("pads", pads);
  g.node("Add", {"c2", "r1"}, {"sum"});
  g.node("MaxPool", {"sum"}, {"pooled"})
      .with("kernel_shape", std::vector<std::int64_t>{2, 2})
      .with("strides", std::vector<std::int64_t>{2, 2});
  g.node("GlobalAveragePool", {"pooled"}, {"mean"});
  g.node("Flatten", {"mean"}, {"flat"});
  g.node("LayerNormalization", {"flat", "scale"}, {"normal"});
  g.node("Gelu", {"normal"}, {"g"});
  g.node("Gemm", {"g", "w3", "b3"}, {"logits"});
  g.node("Softmax", {"logits"}, {"scores"});
  g.node("ReduceMax", {"logits"}, {"largest"});
  g.message().mutable_opset_import(0)->set_version(20);
  const auto network = g.make();
  const tensor_map inputs{{"x", random_tensor({between(1, 3), 3, 8, 8})}};
  const auto original = run_at(network, model_precision::original, inputs);
  for (const auto at : narrow_precisions) {
    const auto found = run_at(network, at, inputs);
    for (std::size_t i = 0; i < original.size(); ++i) {
      EXPECT_EQ(found[i].type(), element_type::f32);
      const auto error = relative_error(found[i], as_numbers(original[i]));
      EXPECT_LT(error, 24 * rounding_of(at)) << i;
      EXPECT_GT(error, 0) << i;
    }
  }
}

// The sum and its squares exceed f16, and 1e-12 is 0 there.
TEST_P(precision, computes_sums_and_deviations_in_f32) {
  onnx_graph g(13);
  g.input("x", {2, 4}).output("y").output("sum");
  g.constant("w", std::vector<float>(4 * 64, 500), {4, 64});
  g.constant("epsilon", {1e-12F}, {}).constant("two", {2}, {});
  g.constant("axes", std::vector<std::int64_t>{-1});
  g.node("MatMul", {"x", "w"}, {"p"});
  g.node("ReduceSum", {"p", "axes"}, {"sum"});
  g.node("ReduceMean", {"p"}, {"mean"}).with("axes", std::vector<std::int64_t>{-1});
  g.node("Sub", {"p", "mean"}, {"d"});
  g.node("Pow", {"d", "two"}, {"square"});
  g.node("ReduceMean", {"square"}, {"variance"}).with("axes", std::vector<std::int64_t>{-1});
  g.node("Add", {"variance", "epsilon"}, {"v"});
  g.node("Sqrt", {"v"}, {"deviation"});
  g.node("Div", {"d", "deviation"}, {"y"});
  const tensor_map inputs{{"x", host_tensor(std::vector<float>(8, 1), {2, 4})}};
  for (const auto at : narrow_precisions) {
    const auto found = run_at(g.make(), at, inputs);
    EXPECT_EQ(as_numbers(found[0]), numbers(2 * 64, 0));  // not NaN
    EXPECT_LT(relative_error(found[1], numbers(2, 2000 * 64)), 1e-2);
  }
}

// The square of 300 exceeds f16.
TEST_P(precision, computes_squares_in_f32) {
  onnx_graph g(13);
  g.input("x", {1, 1}).output("y").constant("w", {300}, {1, 1});
  g.node("MatMul", {"x", "w"}, {"p"}).with("__tool", 1);
  g.node("Mul", {"p", "p"}, {"y"});
  const auto found = run_at(g.make(), model_precision::f16,
                            {{"x", host_tensor(std::vector<float>{1.0F}, {1, 1})}});
  EXPECT_EQ(as_numbers(found[0]), (numbers{90000}));
}

// A mask of the lowest number of f32 hides all keys of a row: the weights are equal.
TEST_P(precision, adds_masks_in_f32) {
  onnx_graph g(13);
  g.input("x", {2, 4}).input("visible", onnx::TensorProto::INT64).output("y");
  g.constant("w", std::vector<float>(16, 0.25F), {4, 4}).constant("one", {1}, {});
  g.constant("lowest", {std::numeric_limits<float>::lowest()}, {});
  g.node("MatMul", {"x", "w"}, {"scores"});
  g.node("Cast", {"visible"}, {"v"}).with("to", 1);
  g.node("Sub", {"one", "v"}, {"hidden"});
  g.node("Mul", {"hidden", "lowest"}, {"mask"});
  g.node("Add", {"scores", "mask"}, {"masked"});
  g.node("Softmax", {"masked"}, {"y"});
  const tensor_map inputs{
      {"x", random_tensor({2, 4})},
      {"visible", host_tensor(std::vector<std::int64_t>{0, 0, 0, 0, 1, 1, 0, 0}, {2, 4})}};
  for (const auto at : narrow_precisions) {
    const auto found = run_at(g.make(), at, inputs);
    expect_near(
        found[0],
        host_tensor(std::vector<float>{0.25F, 0.25F, 0.25F, 0.25F, 0.5F, 0.5F, 0.0F, 0.0F}, {2, 4}),
        1e-2);
  }
}

// Where a constant exceeds f16, or is 0 there, the step is computed in f32.
TEST_P(precision, keeps_constants_that_do_not_fit) {
  onnx_graph g;
  g.input("x", {1, 2}).output("y").output("z");
  g.constant("w", {1e6F, 0, 0, 1e6F}, {2, 2}).constant("v", {1, 0, 0, 1}, {2, 2});
  g.constant("small", {1e-12F}, {}).constant("large", {1e12F}, {});
  g.node("MatMul", {"x", "w"}, {"y"});
  g.node("MatMul", {"x", "v"}, {"p"});
  g.node("Mul", {"p", "small"}, {"s"});
  g.node("Mul", {"s", "large"}, {"z"});
  const auto found = run_at(g.make(), model_precision::f16,
                            {{"x", host_tensor(std::vector<float>{0.25F, 3.0F}, {1, 2})}});
  expect_near(found[0], host_tensor(std::vector<float>{250000.0F, 3000000.0F}, {1, 2}));
  expect_near(found[1], host_tensor(std::vector<float>{0.25F, 3.0F}, {1, 2}));
}

// Values of f16 and f64 in the file are not changed.
TEST_P(precision, does_not_change_other_types) {
  for (const auto stated : {onnx::TensorProto::FLOAT16, onnx::TensorProto::DOUBLE}) {
    onnx_graph g;
    g.input("x", stated).output("y").output("half");
    parameter(g, "w", {6, 6});
    g.node("Cast", {"w"}, {"v"}).with("to", static_cast<int>(stated));
    g.node("MatMul", {"x", "v"}, {"p"});
    g.node("Cast", {"p"}, {"half"}).with("to", 10);
    g.node("ReduceSum", {"p"}, {"s"});
    g.node("Add", {"p", "s"}, {"y"});
    const auto type = stated == onnx::TensorProto::DOUBLE ? element_type::f64 : element_type::f16;
    const tensor_map inputs{{"x", random_tensor({5, 6}).to(type)}};
    const auto network = g.make();
    const auto original = run_at(network, model_precision::original, inputs);
    for (const auto at : narrow_precisions) {
      const auto found = run_at(network, at, inputs);
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].type(), original[i].type());
        EXPECT_EQ(as_numbers(found[i]), as_numbers(original[i]));
      }
    }
  }
}

// The values that go from one turn to the next have one type.
TEST_P(precision, has_loops_and_branches) {
  onnx_graph body;
  body.input("turn", onnx::TensorProto::INT64).input("on", onnx::TensorProto::BOOL);
  body.input("a", {2, 2}).output("on.next").output("b").output("row");
  body.node("Identity", {"on"}, {"on.next"});
  body.node("MatMul", {"a", "w"}, {"b"});
  body.node("Relu", {"b"}, {"row"});
  onnx_graph g;
  g.input("x", {2, 2}).output("last").output("rows").number("count", 3);
  parameter(g, "w", {2, 2});
  g.node("Loop", {"count", "", "x"}, {"last", "rows"}).with("body", body.graph());
  const tensor_map inputs{{"x", random_tensor({2, 2})}};
  const auto network = g.make();
  const auto original = run_at(network, model_precision::original, inputs);
  for (const auto at : narrow_precisions) {
    const auto found = run_at(network, at, inputs);
    EXPECT_EQ(found[1].shape(), (extents{3, 2, 2}));
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(difference(found[i], original[i], {.relative = 0.05, .absolute = 0.05}), "");
    }
  }
}

// Constants are converted once: they take half of the memory, and there are no steps for them.
TEST_P(precision, converts_constants_once) {
  onnx_graph g;
  g.input("x", {4, 32}).output("y");
  parameter(g, "w", {32, 32});
  g.node("MatMul", {"x", "w"}, {"a"});
  g.node("MatMul", {"a", "w"}, {"b"});
  g.node("MatMul", {"b", "w"}, {"y"});
  const auto network = g.make();
  const std::map<std::string, tensor_spec> specs{
      {"x", tensor_spec::row_major(element_type::f32, {4, 32})}};
  const auto original = network.program_for(specs);
  const auto narrow = network.program_for(specs, {}, {.precision = model_precision::f16});
  EXPECT_EQ(2 * narrow.cost.constant_bytes, original.cost.constant_bytes);
  EXPECT_EQ(narrow.program.steps(), 5U);
  const auto steps = network.steps_for(specs, {}, {.precision = model_precision::f16});
  std::vector<std::string> operations;
  for (const auto& step : steps.steps) operations.push_back(step.operation);
  EXPECT_EQ(operations, (std::vector<std::string>{"cast", "gemm", "gemm", "gemm", "cast"}));
}

TEST_P(precision, is_compatible_with_batches) {
  onnx_graph g;
  g.input("x", {-1, 6}).output("y");
  parameter(g, "w", {6, 5});
  g.node("MatMul", {"x", "w"}, {"p"});
  g.node("Softmax", {"p"}, {"y"});
  const std::map<std::string, tensor_spec> specs{
      {"x", tensor_spec::row_major(element_type::f32, {1, 6})}};
  const auto made =
      g.make().program_for(specs, {}, {.max_in_batch = 16, .precision = model_precision::f16});
  EXPECT_EQ(made.batching.reason, "");
  EXPECT_EQ(made.max_in_batch, 16U);
}

TEST_P(precision, refuses_what_is_no_enumerator) {
  onnx_graph g;
  g.input("x", {1}).output("y").node("Neg", {"x"}, {"y"});
  const std::map<std::string, tensor_spec> specs{
      {"x", tensor_spec::row_major(element_type::f32, {1})}};
  try {
    (void)g.make().program_for(specs, {}, {.precision = static_cast<model_precision>(9)});
    ADD_FAILURE() << "no error";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::invalid_argument);
    EXPECT_NE(std::string(e.what()).find("precision"), std::string::npos) << e.what();
  }
}

/// Whether a small error of a value may become a large one: an element is taken by another number,
/// or a row without any deviation is divided by it.
bool is_sensitive(onnx_graph graph) {
  for (const auto& node : graph.graph().node()) {
    if (node.op_type() == "Cast" || node.op_type() == "LayerNormalization") return true;
  }
  return false;
}
double largest_of(const numbers& x) {
  double largest = 0;
  for (const auto number : x) largest = std::max(largest, std::abs(number));
  return largest;
}

// Whatever graph is possible is possible at each precision, with outputs of the same properties.
TEST_P(precision, computes_random_graphs) {
  auto generator = make_generator();
  int with_conversions = 0;
  int compared = 0;
  for (int i = 0; i < 300; ++i) {
    graph_writer writer(generator);
    writer.write();
    tensor_map inputs;
    for (const auto& [name, shape] : writer.inputs()) inputs.emplace(name, random_tensor(shape));
    const auto network = writer.graph().make();
    model_program original;
    try {
      original = network.program_for(specs_of(inputs));
    } catch (const error&) {
      continue;
    }
    for (const auto at : narrow_precisions) {
      const auto made = network.program_for(specs_of(inputs), {}, {.precision = at});
      if (made.program.steps() > original.program.steps()) ++with_conversions;
      ASSERT_EQ(made.results.size(), original.results.size());
      for (std::size_t k = 0; k < made.results.size(); ++k) {
        EXPECT_EQ(made.results[k].type, original.results[k].type) << writer.text();
        EXPECT_EQ(made.results[k].shape, original.results[k].shape) << writer.text();
      }
      if (i >= 60) continue;
      const auto found = run(made, inputs);
      const auto expected = run(original, inputs);
      ASSERT_EQ(found.size(), expected.size()) << writer.text();
      for (std::size_t k = 0; k < found.size(); ++k) {
        const auto y = as_numbers(found[k]);
        const auto x = as_numbers(expected[k]);
        numbers errors;
        for (std::size_t e = 0; e < x.size(); ++e) errors.push_back(y[e] - x[e]);
        for (const auto number : y) EXPECT_FALSE(std::isnan(number)) << writer.text();
        if (is_sensitive(writer.graph()) || at != model_precision::f16) continue;
        EXPECT_LE(largest_of(errors), 0.1 * largest_of(x)) << writer.text();
        ++compared;
      }
    }
  }
  EXPECT_GT(with_conversions, 50);
  EXPECT_GT(compared, 10);
}

INSTANTIATE_TEST_SUITE_P(devices, precision, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
