// SPDX-License-Identifier: Apache-2.0
#include "tests/models/onnx_graph.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/seed.hpp"
#include "tests/tools/sluice/program.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace sluice::test {
namespace {

class run_command : public program_test {
 protected:
  void save_model(const std::string& name, onnx_graph& graph) const {
    write_text(folder() / name, graph.message().SerializeAsString());
  }
  /// y = x + c, with one input and one output.
  void save_sum() const {
    onnx_graph graph;
    graph.input("x", {-1, 3}).constant("c", {1, 2, 3}, {3}).output("y");
    graph.node("Add", {"x", "c"}, {"y"});
    save_model("sum.onnx", graph);
  }
  /// difference = a - b, quotient = a / b.
  void save_two() const {
    onnx_graph graph;
    graph.input("a", {-1}).input("b", {-1}).output("difference").output("quotient");
    graph.node("Sub", {"a", "b"}, {"difference"});
    graph.node("Div", {"a", "b"}, {"quotient"});
    save_model("two.onnx", graph);
  }
};

TEST_F(run_command, computes_a_model_of_one_input_and_one_output) {
  save_sum();
  auto generator = make_generator();
  const auto x = random_values<float>(generator, 6);
  save<float>("x.npy", {2, 3}, x);
  for (const auto& device : program_devices()) {
    const auto outcome = run({"run", "sum.onnx", "-i", "x.npy", "-o", "y.npy", "--device", device});
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_NE(outcome.output.find("x 2x3 f32 -> y 2x3 f32"), std::string::npos) << outcome.output;
    const auto y = load("y.npy");
    EXPECT_EQ(y.shape, (std::vector<std::int64_t>{2, 3}));
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_EQ(y.values<float>()[i], x[i] + static_cast<float>(i % 3 + 1));
  }
}

// 1 + 2^-12 is 1 in f16, and the output is of f32.
TEST_F(run_command, computes_at_a_precision) {
  onnx_graph graph;
  graph.input("x", {1, 2}).constant("w", {1, 0, 0, 1}, {2, 2}).output("y");
  graph.node("MatMul", {"x", "w"}, {"y"});
  save_model("product.onnx", graph);
  save<float>("x.npy", {1, 2}, {1 + 0x1p-12F, 3});
  for (const auto& device : program_devices()) {
    for (const auto* const precision : {"original", "f16", "bf16"}) {
      expect_success({"run", "product.onnx", "-i", "x.npy", "-o", "y.npy", "--precision", precision,
                      "--device", device});
      const auto y = load("y.npy");
      const bool is_original = std::string(precision) == "original";
      EXPECT_EQ(y.values<float>()[0], is_original ? 1 + 0x1p-12F : 1) << precision;
      EXPECT_EQ(y.values<float>()[1], 3) << precision;
    }
  }
  expect_refused({"--precision", "'f64'"},
                 {"run", "product.onnx", "-i", "x.npy", "--precision", "f64"});
}

TEST_F(run_command, binds_files_by_name) {
  save_two();
  save<float>("first.npy", {2}, {6, 8});
  save<float>("b=.npy", {2}, {2, 4});
  expect_success({"run", "two.onnx", "--input", "b=b=.npy", "--input=a=first.npy", "--output",
                  "quotient=q.npy", "--output=difference=d.npy", "--device", "host"});
  EXPECT_EQ(load("d.npy").values<float>()[1], 4);
  EXPECT_EQ(load("q.npy").values<float>()[0], 3);
  expect_success({"run", "two.onnx", "-i", "a=first.npy", "-i", "b=b=.npy", "--device", "host"});
}

TEST_F(run_command, takes_the_longest_name_that_fits) {
  onnx_graph graph;
  graph.input("a", {-1}).input("a=b", {-1}).output("y");
  graph.node("Sub", {"a", "a=b"}, {"y"});
  save_model("names.onnx", graph);
  save<float>("x.npy", {1}, {5});
  save<float>("y.npy", {1}, {3});
  expect_success(
      {"run", "names.onnx", "-i", "a=x.npy", "-i", "a=b=y.npy", "-o", "z.npy", "--device", "host"});
  EXPECT_EQ(load("z.npy").values<float>()[0], 2);
}

TEST_F(run_command, takes_standard_streams) {
  save_sum();
  save<float>("x.npy", {1, 3}, {1, 1, 1});
  const auto outcome = run({"run", "sum.onnx", "-i", "-", "-o", "-", "--device", "host"}, [this] {
    ::dup2(::open((folder() / "x.npy").c_str(), O_RDONLY), STDIN_FILENO);
  });
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  const auto y = io::parse_npy(as_bytes(outcome.output), "output");
  EXPECT_EQ(y.values<float>()[2], 4);
}

// The shape of a reshape is known once its input is bound by value.
TEST_F(run_command, binds_inputs_by_value_that_shapes_depend_on) {
  onnx_graph graph;
  graph.input("x", {-1}).input("shape", onnx::TensorProto::INT64).output("y");
  graph.node("Reshape", {"x", "shape"}, {"y"});
  save_model("reshape.onnx", graph);
  save<float>("x.npy", {6}, {0, 1, 2, 3, 4, 5});
  save<std::int64_t>("shape.npy", {2}, {3, -1});
  expect_success({"run", "reshape.onnx", "-i", "x=x.npy", "-i", "shape=shape.npy", "-o", "y.npy",
                  "--device", "host"});
  EXPECT_EQ(load("y.npy").shape, (std::vector<std::int64_t>{3, 2}));
}

TEST_F(run_command, refuses_what_does_not_fit) {
  save_sum();
  save_two();
  save<float>("x.npy", {2, 3}, std::vector<float>(6));
  save<float>("flat.npy", {6}, std::vector<float>(6));
  save<double>("wide.npy", {2, 3}, std::vector<double>(6));
  save<float>("deep.npy", std::vector<std::int64_t>(9, 1), {1});
  write_text(folder() / "text.onnx", "no model");
  const auto refused = [&](const std::vector<std::string>& words,
                           std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "run");
    expect_refused(words, arguments);
  };
  refused({"missing.onnx"}, {"missing.onnx", "-i", "x.npy", "-o", "out.npy"});
  refused({"text.onnx"}, {"text.onnx", "-i", "x.npy", "-o", "out.npy"});
  refused({"x:", "not given"}, {"sum.onnx", "-o", "out.npy"});
  refused({"x", "shape"}, {"sum.onnx", "-i", "flat.npy", "-o", "out.npy"});
  refused({"x", "f64"}, {"sum.onnx", "-i", "wide.npy", "-o", "out.npy"});
  refused({"deep.npy", "9 dimensions"}, {"sum.onnx", "-i", "deep.npy", "-o", "out.npy"});
  refused({"--input: x is named twice"},
          {"sum.onnx", "-i", "x.npy", "-i", "x=x.npy", "-o", "out.npy"});
  refused({"--input", "x.npy", "the model has a, b"}, {"two.onnx", "-i", "x.npy"});
  refused({"--output", "the model has difference, quotient"},
          {"two.onnx", "-i", "a=x.npy", "-i", "b=x.npy", "-o", "out.npy"});
  refused({"--input", "empty"}, {"sum.onnx", "-i", "x=", "-o", "out.npy"});
  refused({"--output", "x.npy", "same file"}, {"sum.onnx", "-i", "x.npy", "-o", "x.npy"});
  refused({"--output", "sum.onnx", "MODEL"}, {"sum.onnx", "-i", "x.npy", "-o", "sum.onnx"});
}

}  // namespace
}  // namespace sluice::test
