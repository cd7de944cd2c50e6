// SPDX-License-Identifier: Apache-2.0
// Several models as one, beside numbers of double precision.
#include "tests/models/batching_test.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/models/model_chain.hpp>

#include <cmath>
#include <functional>

namespace sluice::test {
namespace {

using integers = std::vector<std::int64_t>;

/// y = x · w, for rows of x.
onnx_graph product(const std::vector<float>& w, std::int64_t rows, std::int64_t columns) {
  onnx_graph g;
  g.input("x", {-1, rows}).output("y", {-1, columns});
  g.constant("w", w, {rows, columns});
  g.node("MatMul", {"x", "w"}, {"y"});
  return g;
}
/// Two halves of x, and the larger of both numbers at each place.
onnx_graph halves(std::int64_t columns) {
  onnx_graph g(18);
  g.input("x", {-1, columns}).output("left").output("right").output("most");
  g.node("Split", {"x"}, {"left", "right"}).with("axis", 1).with("num_outputs", 2);
  g.node("Max", {"left", "right"}, {"most"});
  return g;
}
/// y = factor · tanh(a) + b.
onnx_graph mix(float factor) {
  onnx_graph g(13);
  g.input("a", {-1, -2}).input("b", {-1, -2}).output("y");
  g.constant("factor", std::vector<float>{factor}, {});
  g.node("Tanh", {"a"}, {"t"});
  g.node("Mul", {"t", "factor"}, {"scaled"});
  g.node("Add", {"scaled", "b"}, {"y"});
  return g;
}
/// y = x, by a node of one name in all models.
onnx_graph with_node(const char* op_type) {
  onnx_graph g;
  g.input("x", {-1, 4}).output("y", {-1, 4});
  g.node(op_type, {"x"}, {"y"});
  g.graph().mutable_node(0)->set_name("only");
  return g;
}

class model_chains : public batching_test {
 protected:
  static constexpr std::int64_t rows = 6;
  static constexpr std::int64_t columns = 8;

  void SetUp() override {
    batching_test::SetUp();
    w_ = random_tensor({rows, columns}).to_vector<float>();
  }
  /// Steps in another order than that of their computation, one model twice, and outputs that
  /// nothing reads.
  [[nodiscard]] model_chain network() const {
    const auto mixed = mix(3).make();
    return {.name = "network",
            .inputs = {"x", "offset"},
            .steps = {{.name = "last",
                       .what = mixed,
                       .inputs = {{"a", "mixed"}, {"b", "offset"}},
                       .outputs = {{"y", "result"}}},
                      {.name = "first",
                       .what = product(w_, rows, columns).make(),
                       .inputs = {{"x", "x"}},
                       .outputs = {{"y", "features"}}},
                      {.name = "middle",
                       .what = mixed,
                       .inputs = {{"a", "left"}, {"b", "right"}},
                       .outputs = {{"y", "mixed"}}},
                      {.name = "parts",
                       .what = halves(columns).make(),
                       .inputs = {{"x", "features"}},
                       .outputs = {{"left", "left"}, {"right", "right"}}}},
            .outputs = {"result", "left"}};
  }
  /// The elements of "result" for n rows.
  [[nodiscard]] std::vector<double> reference(const tensor_map& inputs) const {
    const auto x = inputs.at("x").to_vector<float>();
    const auto offset = inputs.at("offset").to_vector<float>();
    const auto n = x.size() / rows;
    std::vector<double> result;
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<double> features(columns);
      for (std::size_t c = 0; c < columns; ++c) {
        for (std::size_t r = 0; r < rows; ++r) {
          features[c] += double{x[i * rows + r]} * double{w_[r * columns + c]};
        }
      }
      for (std::size_t c = 0; c < columns / 2; ++c) {
        const auto mixed = 3 * std::tanh(features[c]) + features[c + columns / 2];
        result.push_back(3 * std::tanh(mixed) + double{offset[i * columns / 2 + c]});
      }
    }
    return result;
  }
  [[nodiscard]] tensor_map inputs_of(std::int64_t n) {
    return {{"x", random_tensor({n, rows})}, {"offset", random_tensor({n, columns / 2})}};
  }
  void expect_reference(const host_tensor& result, const tensor_map& inputs, double tolerance) {
    const auto expected = reference(inputs);
    const auto found = result.to_vector<float>();
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(double{found[i]}, expected[i], tolerance) << "element " << i;
    }
  }

 private:
  std::vector<float> w_;
};

TEST_P(model_chains, compute_what_their_steps_do) {
  const auto chain = model::chain(network());
  ASSERT_EQ(chain.inputs().size(), 2U);
  EXPECT_EQ(to_string(*chain.inputs()[0].shape), "[first.n, 6]");
  EXPECT_EQ(chain.inputs()[1].name, "offset");
  ASSERT_EQ(chain.outputs().size(), 2U);
  EXPECT_EQ(chain.outputs()[0].name, "result");
  for (const auto n : {std::int64_t{1}, std::int64_t{3}, between(4, 40)}) {
    const auto inputs = inputs_of(n);
    const auto results = run(chain, inputs);
    ASSERT_EQ(results.size(), 2U);
    EXPECT_EQ(results[0].shape(), (extents{n, columns / 2}));
    expect_reference(results[0], inputs, 1e-4);
  }
}

TEST_P(model_chains, batch_across_their_steps) {
  const auto compiled = model::chain(network()).program_for(specs_of(inputs_of(2)));
  ASSERT_TRUE(compiled.batching) << compiled.batching.reason;
  EXPECT_EQ(compiled.max_in_batch, 64U);
  EXPECT_EQ(difference_of(compiled, compiled.batching, {inputs_of(2), inputs_of(2), inputs_of(2)}),
            "");
}

TEST_P(model_chains, have_one_program) {
  const auto compiled = model::chain(network()).program_for(specs_of(inputs_of(2)));
  EXPECT_EQ(compiled.program.inputs(), 2U);
  EXPECT_EQ(compiled.program.outputs(), 2U);
  // Rules see the nodes of all steps: x · sigmoid(x) is one step.
  onnx_graph sigmoid;
  sigmoid.input("x", {-1, 4}).output("y").node("Sigmoid", {"x"}, {"y"});
  onnx_graph times;
  times.input("a", {-1, 4}).input("b", {-1, 4}).output("y").node("Mul", {"a", "b"}, {"y"});
  const auto silu = model::chain({.inputs = {"x"},
                                  .steps = {{.name = "sigmoid",
                                             .what = sigmoid.make(),
                                             .inputs = {{"x", "x"}},
                                             .outputs = {{"y", "s"}}},
                                            {.name = "times",
                                             .what = times.make(),
                                             .inputs = {{"a", "x"}, {"b", "s"}},
                                             .outputs = {{"y", "y"}}}},
                                  .outputs = {"y"}})
                        .program_for(specs_of({{"x", random_tensor({2, 4})}}));
  EXPECT_EQ(silu.program.steps(), 1U) << silu.program.text();
}

TEST_P(model_chains, keep_the_precision_of_the_values_between) {
  const auto chain = model::chain(network());
  for (const auto precision : {model_precision::f16, model_precision::bf16}) {
    const auto inputs = inputs_of(4);
    const auto compiled = chain.program_for(specs_of(inputs), {}, {.precision = precision});
    const auto results = run(compiled, inputs);
    EXPECT_EQ(results[0].type(), element_type::f32);
    expect_reference(results[0], inputs, precision == model_precision::f16 ? 0.1 : 0.8);
  }
}

TEST_P(model_chains, know_shapes_across_steps) {
  onnx_graph shape;
  shape.input("x", {-1, -2}).output("s").node("Shape", {"x"}, {"s"});
  onnx_graph reshape;
  reshape.input("x", {-1}).input("s", onnx::TensorProto::INT64).output("y");
  reshape.node("Reshape", {"x", "s"}, {"y"});
  const auto chain = model::chain({.inputs = {"like", "x"},
                                   .steps = {{.name = "shape",
                                              .what = shape.make(),
                                              .inputs = {{"x", "like"}},
                                              .outputs = {{"s", "s"}}},
                                             {.name = "reshape",
                                              .what = reshape.make(),
                                              .inputs = {{"x", "x"}, {"s", "s"}},
                                              .outputs = {{"y", "y"}}}},
                                   .outputs = {"y"}});
  const auto x = random_tensor({6});
  const auto results = run(chain, {{"x", x}, {"like", random_tensor({2, 3})}});
  EXPECT_EQ(results[0].shape(), (extents{2, 3}));
  EXPECT_EQ(results[0].to_vector<float>(), x.to_vector<float>());
  EXPECT_TRUE(bound().empty());
}

TEST_P(model_chains, bind_their_inputs_by_value) {
  onnx_graph next;
  next.input("n", onnx::TensorProto::INT64).output("m").number("one", 1);
  next.node("Add", {"n", "one"}, {"m"});
  onnx_graph top;
  top.input("x", {-1, 5}).input("k", onnx::TensorProto::INT64).output("y");
  top.node("TopK", {"x", "k"}, {"y", ""});
  const auto chain = model::chain({.inputs = {"count", "x"},
                                   .steps = {{.name = "next",
                                              .what = next.make(),
                                              .inputs = {{"n", "count"}},
                                              .outputs = {{"m", "more"}}},
                                             {.name = "top",
                                              .what = top.make(),
                                              .inputs = {{"x", "x"}, {"k", "more"}},
                                              .outputs = {{"y", "y"}}}},
                                   .outputs = {"y"}});
  const host_tensor count(std::vector<std::int64_t>{2}, {1});
  const auto results = run(chain, {{"count", count}, {"x", random_tensor({2, 5})}});
  EXPECT_EQ(results[0].shape(), (extents{2, 3}));
  EXPECT_EQ(bound(), std::set<std::string>{"count"});
}

TEST_P(model_chains, may_be_steps) {
  const auto inner = model::chain(network());
  const auto outer = model::chain({.inputs = {"p", "q"},
                                   .steps = {{.name = "inner",
                                              .what = inner,
                                              .inputs = {{"x", "p"}, {"offset", "q"}},
                                              .outputs = {{"result", "r"}}},
                                             {.name = "negative",
                                              .what = with_node("Neg").make(),
                                              .inputs = {{"x", "r"}},
                                              .outputs = {{"y", "y"}}}},
                                   .outputs = {"y", "r"}});
  EXPECT_EQ(to_string(*outer.inputs()[0].shape), "[inner.first.n, 6]");
  const auto inputs = inputs_of(5);
  const auto results = run(outer, {{"p", inputs.at("x")}, {"q", inputs.at("offset")}});
  expect_reference(results[1], inputs, 1e-4);
  const auto y = results[0].to_vector<float>();
  const auto r = results[1].to_vector<float>();
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], -r[i]);
}

TEST_P(model_chains, name_the_step_in_errors) {
  const auto chain = [](const char* first, const char* second) {
    return model::chain({.inputs = {"x"},
                         .steps = {{.name = "a",
                                    .what = with_node(first).make(),
                                    .inputs = {{"x", "x"}},
                                    .outputs = {{"y", "z"}}},
                                   {.name = "b",
                                    .what = with_node(second).make(),
                                    .inputs = {{"x", "z"}},
                                    .outputs = {{"y", "y"}}}},
                         .outputs = {"y"}});
  };
  const std::map specs{std::pair<const std::string, tensor_spec>(
      "x", tensor_spec::row_major(element_type::f32, {1, 4}))};
  EXPECT_TRUE(throws(errc::unsupported, "step 'b': node 'only' (Nothing)",
                     [&] { (void)chain("Neg", "Nothing").program_for(specs); }));
  const auto refusals = chain("Nothing", "Nowhere").refusals(specs);
  ASSERT_EQ(refusals.size(), 1U) << "what depends on a refused node is not known";
  EXPECT_EQ(refusals[0].node, "a/only");
  EXPECT_TRUE(refusals[0].is_inherent);
  EXPECT_TRUE(chain("Neg", "Relu").refusals(specs).empty());
  EXPECT_TRUE(throws(errc::invalid_argument, "x", [&] {
    (void)chain("Neg", "Relu")
        .program_for({{"x", tensor_spec::row_major(element_type::f32, {1, 5})}});
  }));
  // A type that is not declared shows when the program is made.
  onnx_graph cast;
  cast.input("x", {-1, 4}).output("y");
  cast.node("Cast", {"x"}, {"y"}).with("to", onnx::TensorProto::INT32);
  const auto ints = model::chain(
      {.inputs = {"x"},
       .steps =
           {{.name = "cast", .what = cast.make(), .inputs = {{"x", "x"}}, .outputs = {{"y", "i"}}},
            {.name = "real",
             .what = with_node("Neg").make(),
             .inputs = {{"x", "i"}},
             .outputs = {{"y", "y"}}}},
       .outputs = {"y"}});
  EXPECT_TRUE(
      throws(errc::invalid_argument, "step 'real': x", [&] { (void)ints.program_for(specs); }));
  ASSERT_EQ(ints.refusals(specs).size(), 1U);
  EXPECT_NE(ints.refusals(specs)[0].reason.find("step 'real'"), std::string::npos);
}

TEST_P(model_chains, have_the_contents_of_all_steps) {
  const auto found = model::chain(network()).summary();
  EXPECT_EQ(found.ir_version, 8);
  EXPECT_EQ(found.producer, "");
  EXPECT_EQ(found.opsets.size(), 3U);
  EXPECT_EQ(found.parameters, std::uint64_t{rows * columns + 2});
  ASSERT_EQ(found.operators.size(), 6U);
  EXPECT_EQ(found.operators[0].name, "Add");
  EXPECT_EQ(found.operators[0].nodes, 2U);
}

TEST_P(model_chains, refuse_what_is_not_connected) {
  const auto expect_refusal = [&](const char* word,
                                  const std::function<void(model_chain&)>& change) {
    auto changed = network();
    change(changed);
    EXPECT_TRUE(throws(errc::invalid_argument, word, [&] { (void)model::chain(changed); }));
  };
  EXPECT_FALSE(error_of([&] { return model::chain(network()); }));
  expect_refusal("no steps", [](auto& chain) { chain.steps.clear(); });
  expect_refusal("no outputs", [](auto& chain) { chain.outputs.clear(); });
  expect_refusal("two steps have the name first",
                 [](auto& chain) { chain.steps[0].name = "first"; });
  expect_refusal("a step has no name", [](auto& chain) { chain.steps[0].name.clear(); });
  expect_refusal("no step reads the input 'unused'",
                 [](auto& chain) { chain.inputs.emplace_back("unused"); });
  expect_refusal("has no name", [](auto& chain) { chain.inputs.emplace_back(); });
  expect_refusal("two producers", [](auto& chain) { chain.inputs.emplace_back("x"); });
  expect_refusal("step 'parts' makes it",
                 [](auto& chain) { chain.steps[3].outputs["most"] = "mixed"; });
  expect_refusal("two producers", [](auto& chain) { chain.steps[3].outputs["most"] = "x"; });
  expect_refusal("two outputs have the name 'left'",
                 [](auto& chain) { chain.outputs.emplace_back("left"); });
  expect_refusal("no step makes the output 'x'",
                 [](auto& chain) { chain.outputs.emplace_back("x"); });
  expect_refusal("no step makes the output 'nothing'",
                 [](auto& chain) { chain.outputs.emplace_back("nothing"); });
  expect_refusal("step 'last': the input 'b' gets no value",
                 [](auto& chain) { chain.steps[0].inputs.erase("b"); });
  expect_refusal("step 'last': the model has no input 'c'",
                 [](auto& chain) { chain.steps[0].inputs["c"] = "x"; });
  expect_refusal("step 'first': the model has no output 'z'",
                 [](auto& chain) { chain.steps[1].outputs["z"] = "z"; });
  expect_refusal("step 'parts': the value for the output 'most' has no name",
                 [](auto& chain) { chain.steps[3].outputs["most"] = ""; });
  expect_refusal("step 'last': nothing makes the value 'nothing' for the input 'a'",
                 [](auto& chain) { chain.steps[0].inputs["a"] = "nothing"; });
  expect_refusal("depends on its own outputs",
                 [](auto& chain) { chain.steps[2].inputs["b"] = "mixed"; });
  expect_refusal("depends on its own outputs",
                 [](auto& chain) { chain.steps[3].inputs["x"] = "result"; });
  // The features have 8 columns, and x has 6.
  expect_refusal("step 'parts': the value 'x' for the input 'x': the shape is",
                 [](auto& chain) { chain.steps[3].inputs["x"] = "x"; });
  expect_refusal("step 'last': the value 'features' for the input 'a': the type is f32",
                 [](auto& chain) {
                   onnx_graph integer;
                   integer.input("a", onnx::TensorProto::INT64).input("b").output("y");
                   integer.node("Identity", {"b"}, {"y"});
                   chain.steps[0].what = integer.make();
                   chain.steps[0].inputs["a"] = "features";
                 });
}

INSTANTIATE_TEST_SUITE_P(devices, model_chains, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
