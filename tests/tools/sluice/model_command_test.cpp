// SPDX-License-Identifier: Apache-2.0
#include "tests/models/onnx_graph.hpp"
#include "tests/tools/sluice/program.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

using nlohmann::json;

class model_command : public program_test {
 protected:
  void save_model(const std::string& name, onnx_graph& graph) const {
    write_text(folder() / name, graph.message().SerializeAsString());
  }
  /// y = x · w + x, of x with the extents n and 3.
  void save_product() const {
    onnx_graph graph;
    graph.message().set_producer_name("test");
    graph.input("x", {-1, 3}).constant("w", std::vector<float>(9), {3, 3}).output("y");
    graph.node("MatMul", {"x", "w"}, {"p"});
    graph.node("Add", {"p", "x"}, {"y"});
    save_model("product.onnx", graph);
  }
  /// y = reshape(x, shape)
  void save_reshape() const {
    onnx_graph graph;
    graph.input("x", {-1}).input("shape", onnx::TensorProto::INT64).output("y");
    graph.node("Reshape", {"x", "shape"}, {"y"});
    save_model("reshape.onnx", graph);
    save<std::int64_t>("shape.npy", {2}, {3, -1});
  }
  /// Two nodes that cannot run.
  void save_bad() const {
    onnx_graph graph;
    graph.input("x", {-2}).output("y");
    graph.node("Future", {"x"}, {"a"});
    graph.node("Neg", {"a"}, {"y"});
    graph.node("Softmax", {"x"}, {"b"}).with("axis", 3);
    save_model("bad.onnx", graph);
  }
  /// The report of a model in JSON.
  [[nodiscard]] json report(const std::vector<std::string>& arguments, int status = 0) const {
    std::vector<std::string> all{"model", "--json"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const auto outcome = run(all);
    EXPECT_EQ(outcome.status, status) << outcome.errors;
    return json::parse(outcome.output);
  }
};

TEST_F(model_command, describes_a_model_and_its_program) {
  save_product();
  const auto outcome = run({"model", "product.onnx"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.errors, "");
  EXPECT_EQ(outcome.output,
            "product.onnx: format 8, opset 17, by test\n"
            "1 input\n"
            "  x  f32   [n, 3]\n"
            "1 output\n"
            "  y  ?     of any shape\n"
            "9 parameters, 36 bytes\n"
            "2 nodes of 2 operators\n"
            "  Add          1\n"
            "  MatMul       1\n"
            "For x 1x3\n"
            "  1 is assumed for n: see --dimension and --shape\n"
            "  2 steps, 21 arithmetic operations\n"
            "  36 bytes of constants\n"
            "  12 bytes of intermediate values, at most 12 bytes at one time\n"
            "  outputs: y 1x3 f32\n");
}

TEST_F(model_command, prints_json) {
  save_product();
  const auto found = report({"product.onnx", "--dimension", "n=4"});
  EXPECT_EQ(found.at("ir_version"), 8);
  EXPECT_EQ(found.at("producer"), "test");
  EXPECT_EQ(found.at("opsets"), json::parse(R"([{"domain": "", "version": 17}])"));
  EXPECT_EQ(found.at("inputs"),
            json::parse(R"([{"name": "x", "type": "f32", "shape": ["n", 3]}])"));
  EXPECT_EQ(found.at("outputs"), json::parse(R"([{"name": "y", "type": null, "shape": null}])"));
  EXPECT_EQ(found.at("parameters"), 9);
  EXPECT_EQ(found.at("shapes"), json::parse(R"({"x": [4, 3]})"));
  EXPECT_EQ(found.at("assumed"), json::array());
  EXPECT_EQ(found.at("refusals"), json::array());
  const auto& program = found.at("program");
  EXPECT_EQ(program.at("steps"), 2);
  EXPECT_EQ(program.at("arithmetic"), 2 * 4 * 3 * 3 + 12);
  EXPECT_EQ(program.at("outputs"),
            json::parse(R"([{"name": "y", "type": "f32", "shape": [4, 3]}])"));
}

TEST_F(model_command, lists_what_is_optimised) {
  onnx_graph graph;
  graph.input("x", {3}).output("y");
  graph.node("Neg", {"x"}, {"unread"});
  graph.node("Sigmoid", {"x"}, {"gate"});
  graph.node("Mul", {"x", "gate"}, {"y"});
  save_model("silu.onnx", graph);
  const auto text = run({"model", "silu.onnx", "--optimizations"}).output;
  EXPECT_NE(text.find("2 optimizations\n  unused  unread\n  silu    y\n"), std::string::npos)
      << text;
  EXPECT_EQ(run({"model", "silu.onnx"}).output.find("optimization"), std::string::npos);
  const auto found = report({"silu.onnx", "--optimizations"}).at("program");
  EXPECT_EQ(found.at("optimizations"), json::parse(R"([{"rule": "unused", "node": "unread"},
                                                       {"rule": "silu", "node": "y"}])"));
  EXPECT_EQ(found.at("steps"), 1);
  const auto unchanged = report({"silu.onnx", "--optimizations", "--no-optimize"}).at("program");
  EXPECT_EQ(unchanged.at("optimizations"), json::array());
  EXPECT_EQ(unchanged.at("steps"), 3);
}

TEST_F(model_command, writes_the_program) {
  onnx_graph graph;
  graph.input("x", {3}).output("y");
  graph.node("Sigmoid", {"x"}, {"gate"});
  graph.node("Mul", {"x", "gate"}, {"y"});
  save_model("silu.onnx", graph);
  (void)run({"model", "silu.onnx", "--write", "fast.onnx"});
  const auto found = report({"fast.onnx", "--no-optimize"}).at("program");
  EXPECT_EQ(found.at("steps"), 1);
  EXPECT_NE(run({"model", "fast.onnx"}).output.find("sluice.silu"), std::string::npos);
  EXPECT_NE(run({"model", "silu.onnx", "--write", "-"}).status, 0);
  EXPECT_NE(run({"model", "silu.onnx", "--write", "silu.onnx"}).status, 0);
}

// A shape states the symbols of other inputs, too.
TEST_F(model_command, takes_shapes) {
  onnx_graph graph;
  graph.input("a", {-1, 2}).input("b", {-1, -2}).input("c", onnx::TensorProto::FLOAT).output("y");
  graph.node("Identity", {"a"}, {"y"});
  save_model("three.onnx", graph);
  const auto found = report({"three.onnx", "--shape", "a=5,2", "--shape=c="});
  EXPECT_EQ(found.at("shapes"), json::parse(R"({"a": [5, 2], "b": [5, 1], "c": []})"));
  EXPECT_EQ(found.at("assumed"), json::parse(R"(["b[1]"])"));
  save<float>("a.npy", {0, 2}, {});
  const auto read = report({"three.onnx", "-i", "a=a.npy", "--shape", "c=3"});
  EXPECT_EQ(read.at("shapes"), json::parse(R"({"a": [0, 2], "b": [0, 1], "c": [3]})"));
}

TEST_F(model_command, binds_inputs_by_value_that_shapes_depend_on) {
  save_reshape();
  const auto found = report({"reshape.onnx", "--dimension", "6", "-i", "shape=shape.npy"});
  EXPECT_EQ(found.at("bound"), json::parse(R"(["shape"])"));
  EXPECT_EQ(found.at("program").at("outputs").at(0).at("shape"), json::parse("[3, 2]"));
  // Without the file, the node cannot run.
  const auto unbound = report({"reshape.onnx", "--shape", "shape=2"}, 2);
  EXPECT_EQ(unbound.at("program"), json());
  EXPECT_EQ(unbound.at("refusals").at(0).at("unbound"), json::parse(R"(["shape"])"));
}

TEST_F(model_command, lists_all_nodes_that_cannot_run) {
  save_bad();
  const auto outcome = run({"model", "bad.onnx"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.errors, "sluice model: bad.onnx: 2 nodes cannot run\n");
  EXPECT_NE(outcome.output.find("  no program:\n"
                                "  a (Future): sluice does not have this operator\n"
                                "  b (Softmax): axis: is 3, but there are 1 dimensions\n"),
            std::string::npos)
      << outcome.output;
  const auto found = report({"bad.onnx"}, 2);
  ASSERT_EQ(found.at("refusals").size(), 2U);
  EXPECT_EQ(found.at("refusals").at(0),
            json::parse(R"({"node": "a", "domain": "", "operator": "Future", "code": "unsupported",
                            "reason": "sluice does not have this operator", "unbound": []})"));
}

TEST_F(model_command, describes_a_model_of_the_future) {
  onnx_graph graph(29);
  graph.input("x", {2}).output("y").node("Neg", {"x"}, {"y"});
  save_model("future.onnx", graph);
  const auto outcome = run({"model", "future.onnx"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.output.find("opset 29"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.errors.find("future.onnx: version 29 of the operator set"), std::string::npos)
      << outcome.errors;
}

TEST_F(model_command, describes_a_model_without_shapes) {
  onnx_graph graph;
  graph.input("x", onnx::TensorProto::FLOAT).output("y").node("Neg", {"x"}, {"y"});
  save_model("open.onnx", graph);
  const auto outcome = run({"model", "open.onnx"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.output.find("  Neg       1\n"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.errors.find("open.onnx: x is declared without a shape: state one with --shape"),
            std::string::npos)
      << outcome.errors;
  EXPECT_EQ(report({"open.onnx", "--shape", "2,3"}).at("program").at("steps"), 1);
}

TEST_F(model_command, measures_steps) {
  save_product();
  for (const auto& device : program_devices()) {
    const auto found = report({"product.onnx", "--dimension", "4", "--profile", "--runs", "3",
                               "--seed", "7", "--chart", "chart.png", "--device", device});
    const auto& profile = found.at("profile");
    EXPECT_EQ(profile.at("runs"), 3);
    EXPECT_EQ(profile.at("seed"), 7);
    ASSERT_EQ(profile.at("steps").size(), 2U);
    double sum = 0;
    double share = 0;
    for (const auto& step : profile.at("steps")) {
      EXPECT_GE(step.at("median_us"), step.at("low_us"));
      EXPECT_LE(step.at("median_us"), step.at("high_us"));
      EXPECT_GE(step.at("low_us"), 0);
      sum += step.at("median_us").get<double>();
      share += step.at("share").get<double>();
    }
    EXPECT_DOUBLE_EQ(profile.at("sum_us").get<double>(), sum);
    EXPECT_NEAR(share, 1, 1e-6);
    EXPECT_EQ(profile.at("steps").at(0).at("operation"), "gemm");
    EXPECT_EQ(read_text(folder() / "chart.png").substr(1, 3), "PNG");
    std::filesystem::remove(folder() / "chart.png");
    const auto text = run({"model", "product.onnx", "--profile", "--device", device});
    EXPECT_EQ(text.status, 0) << text.errors;
    EXPECT_NE(text.output.find("p (gemm)"), std::string::npos) << text.output;
    EXPECT_NE(text.output.find("Each step is run alone"), std::string::npos) << text.output;
  }
}

// Integers are 0 or 1, so they are indices of any dimension of two elements.
TEST_F(model_command, measures_models_of_integers) {
  onnx_graph graph;
  graph.input("indices", onnx::TensorProto::INT64).output("y");
  graph.constant("table", {1, 2, 3, 4}, {2, 2}).node("Gather", {"table", "indices"}, {"y"});
  save_model("gather.onnx", graph);
  expect_success({"model", "gather.onnx", "--shape", "50", "--profile", "--device", "host"});
  save<std::int64_t>("indices.npy", {1}, {2});
  const auto outcome =
      run({"model", "gather.onnx", "-i", "indices.npy", "--profile", "--device", "host"});
  EXPECT_NE(outcome.status, 0);  // the elements of the file are used, and 2 is out of range
}

// w is random enough for errors, and the second output has none.
TEST_F(model_command, compares_a_precision_with_that_of_the_file) {
  onnx_graph graph;
  graph.input("x", {-1, 3}).output("y").output("n");
  graph.constant("w", {0.1F, 0.7F, -0.3F, 1.1F, 0.9F, -0.6F, 0.4F, 0.2F, 0.8F}, {3, 3});
  graph.node("MatMul", {"x", "w"}, {"y"});
  graph.node("Neg", {"x"}, {"n"});
  save_model("two.onnx", graph);
  for (const auto& device : program_devices()) {
    for (const std::string precision : {"tf32", "f16", "bf16"}) {
      const auto found = report({"two.onnx", "--dimension", "50", "--precision", precision,
                                 "--compare", "--seed", "3", "--device", device});
      EXPECT_EQ(found.at("precision"), precision);
      const auto& comparison = found.at("comparison");
      EXPECT_EQ(comparison.at("seed"), 3);
      ASSERT_EQ(comparison.at("outputs").size(), 2U);
      const auto& y = comparison.at("outputs").at(0);
      const double rounding = precision == "bf16" ? 0x1p-8 : 0x1p-11;
      if (precision != "tf32") {
        EXPECT_GT(y.at("largest"), 0);
      }
      EXPECT_LT(y.at("largest"), 8 * rounding);
      EXPECT_GE(y.at("largest"), y.at("root_mean_square"));
      EXPECT_GE(y.at("largest_relative"), y.at("relative_root_mean_square"));
      EXPECT_LT(y.at("relative_root_mean_square"), 2 * rounding);
      EXPECT_EQ(y.at("elements"), 150);
      EXPECT_EQ(y.at("not_finite"), 0);
      EXPECT_EQ(comparison.at("outputs").at(1).at("name"), "n");
      EXPECT_EQ(comparison.at("outputs").at(1).at("largest"), 0);
    }
  }
  const auto text =
      run({"model", "two.onnx", "--precision", "f16", "--compare", "--device", "host"});
  EXPECT_EQ(text.status, 0) << text.errors;
  for (const auto* const words : {"Compared with the precision of the file", "  y\n", "  n\n"})
    EXPECT_NE(text.output.find(words), std::string::npos) << text.output;
}

// The steps of the precision are measured.
TEST_F(model_command, measures_steps_of_a_precision) {
  save_product();
  const auto found = report({"product.onnx", "--profile", "--runs", "1", "--precision", "bf16",
                             "--compare", "--device", "host"});
  EXPECT_EQ(found.at("profile").at("steps").at(0).at("operation"), "cast");
  EXPECT_EQ(found.at("profile").at("steps").size(), found.at("program").at("steps"));
  EXPECT_TRUE(found.contains("comparison"));
}

// The figures against those of a definition, with elements that are not finite.
TEST_F(model_command, counts_elements_whose_error_is_not_finite) {
  onnx_graph graph;
  graph.input("x", {4, 1}).output("y").constant("w", {1}, {1, 1});
  graph.node("MatMul", {"x", "w"}, {"y"});
  save_model("large.onnx", graph);
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  save<float>("x.npy", {4, 1}, {1e6F, 2, nan, 1 + 0x1p-12F});
  const auto found =
      report({"large.onnx", "-i", "x.npy", "--precision", "f16", "--compare", "--device", "host"});
  const auto& y = found.at("comparison").at("outputs").at(0);
  EXPECT_EQ(y.at("not_finite"), 1);  // 1e6 is infinite in f16
  EXPECT_EQ(y.at("largest"), 0x1p-12);
  EXPECT_NEAR(y.at("largest_relative").get<double>(), 0x1p-12, 1e-7);
  EXPECT_NEAR(y.at("root_mean_square").get<double>(), 0x1p-12 / std::sqrt(2), 1e-9);
  EXPECT_NEAR(y.at("relative_root_mean_square").get<double>(), 0x1p-12 / std::sqrt(5), 1e-7);
}

TEST_F(model_command, refuses_what_does_not_fit) {
  save_product();
  save<float>("x.npy", {2, 3}, std::vector<float>(6));
  write_text(folder() / "text.onnx", "no model");
  write_text(folder() / "empty.onnx", "");
  onnx_graph graph;
  graph.input("x", {-1, 3}).output("y").node("Neg", {"x"}, {"y"});
  const auto bytes = graph.message().SerializeAsString();
  write_text(folder() / "cut.onnx", bytes.substr(0, bytes.size() / 2));
  const auto refused = [&](const std::vector<std::string>& words,
                           std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "model");
    expect_refused(words, arguments);
  };
  refused({"missing.onnx"}, {"missing.onnx"});
  refused({"text.onnx", "is not a model"}, {"text.onnx"});
  refused({"empty.onnx", "is not a model"}, {"empty.onnx"});
  refused({"cut.onnx", "is not a model"}, {"cut.onnx"});
  refused({"--shape", "'a' is not"}, {"product.onnx", "--shape", "1,a"});
  refused({"--shape", "9 dimensions"}, {"product.onnx", "--shape", "1,1,1,1,1,1,1,1,1"});
  refused({"x: has the shape [2, 4]", "[n, 3]"}, {"product.onnx", "--shape", "x=2,4"});
  refused({"--shape: x:", "overflows"}, {"product.onnx", "--shape", "9223372036854775807,3"});
  refused({"--dimension", "'-1'"}, {"product.onnx", "--dimension", "n=-1"});
  refused({"--dimension: n is named twice"},
          {"product.onnx", "--dimension", "n=1", "--dimension", "2"});
  refused({"--shape: n would be 5", "--dimension states 4"},
          {"product.onnx", "--dimension", "n=4", "--shape", "5,3"});
  refused({"--shape: x has the shape of its file"},
          {"product.onnx", "--shape", "2,3", "-i", "x.npy"});
  for (const auto* const option : {"--runs", "--seed", "--chart"})
    refused({option, "needs --profile"}, {"product.onnx", option, "1"});
  refused({"--compare", "needs --precision"}, {"product.onnx", "--compare"});
  refused({"--precision", "'f8'"}, {"product.onnx", "--precision", "f8"});
  refused({"--compare", "memory"}, {"product.onnx", "--compare", "--precision", "f16", "--shape",
                                    "100000000000000,3", "--device", "host"});
  refused({"--runs", "'0'"}, {"product.onnx", "--profile", "--runs", "0"});
  refused({"--chart", "product.onnx", "MODEL"},
          {"product.onnx", "--profile", "--chart", "product.onnx"});
  refused({"--profile", "memory"},
          {"product.onnx", "--profile", "--shape", "100000000000000,3", "--device", "host"});
  save_bad();
  refused({"--dimension", "the model has none"}, {"bad.onnx", "--dimension", "n=4"});
}

}  // namespace
}  // namespace sluice::test
