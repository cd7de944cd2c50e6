// SPDX-License-Identifier: Apache-2.0
#include "tests/models/onnx_graph.hpp"
#include "tests/tools/sluice/program.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

using nlohmann::json;

class bench_model_command : public program_test {
 protected:
  void save_model(const std::string& name, onnx_graph& graph) const {
    write_text(folder() / name, graph.message().SerializeAsString());
  }
  /// y = relu(x · w), of x with the extents n and 3.
  void save_product() const {
    onnx_graph graph;
    graph.input("x", {-1, 3}).constant("w", std::vector<float>(9, 0.5F), {3, 3}).output("y");
    graph.node("MatMul", {"x", "w"}, {"p"});
    graph.node("Relu", {"p"}, {"y"});
    save_model("product.onnx", graph);
  }
  [[nodiscard]] json report(const std::vector<std::string>& arguments) const {
    std::vector<std::string> all{"bench", "model", "--json", "--rounds", "1"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const auto outcome = run(all);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return json::parse(outcome.output);
  }
  static std::vector<std::string> names(const json& rows) {
    std::vector<std::string> found;
    for (const auto& row : rows) found.push_back(row.at("name"));
    return found;
  }
  static void expect_figures(const json& row) {
    const auto median = row.at("latency").at("median_us").get<double>();
    EXPECT_GT(median, 0) << row;
    EXPECT_GE(row.at("latency").at("p99_us").get<double>(), median) << row;
    EXPECT_GT(row.at("per_second").at("median").get<double>(), 0) << row;
    EXPECT_EQ(row.at("reference"), "alone");
  }
};

TEST_F(bench_model_command, measures_a_model_alone_and_with_clients) {
  save_product();
  for (const auto& device : program_devices()) {
    const auto all = report({"product.onnx", "--clients", "1,5", "--device", device});
    const auto& found = all.at("model");
    const auto& rates = found.at("rates");
    EXPECT_EQ(names(rates),
              (std::vector<std::string>{"alone", "alone, 8 in flight", "1 client", "5 clients",
                                        "5 clients, from and to the host"}));
    for (const auto& row : rates) expect_figures(row);
    EXPECT_EQ(rates.at(0).at("ratio").at("median"), 1);
    EXPECT_EQ(rates.at(2).at("mean_batch"), 1);
    EXPECT_GE(rates.at(3).at("mean_batch").get<double>(), 1);
    EXPECT_LE(rates.at(3).at("mean_batch").get<double>(), 5);
    EXPECT_EQ(found.at("max_in_batch"), 64);
    EXPECT_EQ(found.at("not_batched"), "");
    double sum = 0;
    for (const auto* const part : {"open_us", "program_us", "run_us"})
      sum += found.at("first_answer").at(part).get<double>();
    EXPECT_DOUBLE_EQ(found.at("first_answer").at("total_us").get<double>(), sum);
    EXPECT_GT(found.at("first_answer").at("batches_prepared_us").get<double>(), 0);
  }
}

// The latency of a closed loop with one request in flight is the time between its replies.
TEST_F(bench_model_command, has_latencies_that_fit_the_rates) {
  save_product();
  const auto all = report({"product.onnx", "--clients", "1", "--device", "host"});
  const auto& row = all.at("model").at("rates").at(0);
  const auto each = row.at("us").at("median").get<double>();
  EXPECT_LE(row.at("latency").at("median_us").get<double>(), 2 * each) << row;
}

TEST_F(bench_model_command, says_why_requests_are_launched_alone) {
  onnx_graph graph;
  graph.input("x", {-1, 3}).output("y").node("ReduceSum", {"x"}, {"y"}).with("keepdims", 0);
  save_model("sum.onnx", graph);
  const auto all = report({"sum.onnx", "--clients", "2", "--device", "host"});
  EXPECT_EQ(all.at("model").at("max_in_batch"), 1);
  EXPECT_NE(all.at("model").at("not_batched"), "");
  EXPECT_EQ(all.at("model").at("rates").at(2).at("mean_batch"), 1);
}

// Several inputs, of integers and of f16; integers are indices of rows.
TEST_F(bench_model_command, measures_a_model_of_several_types) {
  onnx_graph graph;
  for (const auto* const name : {"ids", "x"}) {
    auto& input = *graph.graph().add_input();
    input.set_name(name);
    auto& type = *input.mutable_type()->mutable_tensor_type();
    const bool is_ids = std::string(name) == "ids";
    type.set_elem_type(is_ids ? onnx::TensorProto::INT64 : onnx::TensorProto::FLOAT16);
    type.mutable_shape()->add_dim()->set_dim_param("n");
    type.mutable_shape()->add_dim()->set_dim_value(is_ids ? 4 : 3);
  }
  graph.constant("table", {1, 2, 3, 4, 5, 6}, {2, 3}).output("y");
  graph.node("Cast", {"table"}, {"rows"}).with("to", 10);
  graph.node("Gather", {"rows", "ids"}, {"r"});
  graph.node("ReduceMean", {"r"}, {"m"})
      .with("axes", std::vector<std::int64_t>{1})
      .with("keepdims", 0);
  graph.node("Add", {"m", "x"}, {"y"});
  save_model("types.onnx", graph);
  for (const auto& device : program_devices()) {
    const auto all = report({"types.onnx", "--clients", "3", "--device", device});
    for (const auto& row : all.at("model").at("rates")) expect_figures(row);
  }
}

TEST_F(bench_model_command, prints_tables_and_draws_a_chart) {
  save_product();
  const auto outcome = run({"bench", "model", "product.onnx", "--dimension", "2", "--clients", "2",
                            "--device", "host", "--rounds", "1", "--chart", "chart.png"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  for (const auto* const words :
       {"The first answer", "reading of the file", "product.onnx: x 2x3 f32", "alone, 8 in flight",
        "2 clients, from and to the host", "latency: median", "mean batch", "up to 64"}) {
    EXPECT_NE(outcome.output.find(words), std::string::npos) << outcome.output << words;
  }
  EXPECT_EQ(read_text(folder() / "chart.png").substr(1, 3), "PNG");
}

TEST_F(bench_model_command, refuses_what_does_not_fit) {
  save_product();
  const auto refused = [&](const std::vector<std::string>& words,
                           std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "bench");
    arguments.insert(arguments.end(), {"--device", "host"});
    expect_refused(words, arguments);
  };
  refused({"MODEL", "needs a file"}, {"model"});
  refused({"MODEL", "needs the suite model"}, {"mel", "product.onnx"});
  refused({"--clients", "needs the suite model"}, {"mel", "--clients", "1"});
  refused({"missing.onnx"}, {"model", "missing.onnx"});
  refused({"--clients", "'0'"}, {"model", "product.onnx", "--clients", "1,0"});
  refused({"--clients"}, {"model", "product.onnx", "--clients", "1,"});
  refused({"--clients: 8", "twice"}, {"model", "product.onnx", "--clients", "8,1,8"});
  refused({"--dimension", "'-1'"}, {"model", "product.onnx", "--dimension", "n=-1"});
  refused({"MODEL", "memory"}, {"model", "product.onnx", "--shape", "100000000000000,3"});
  refused({"--chart", "product.onnx", "MODEL"},
          {"model", "product.onnx", "--chart", "product.onnx"});
}

}  // namespace
}  // namespace sluice::test
