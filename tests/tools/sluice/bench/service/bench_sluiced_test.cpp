// SPDX-License-Identifier: Apache-2.0
// sluice bench service beside sluiced itself.
#include "tests/models/onnx_graph.hpp"
#include "tests/service/sluiced/service_process.hpp"
#include "tests/tools/sluice/program.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

using nlohmann::json;
using service::test::service_process;

class bench_sluiced : public program_test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(service_process::path()))
      GTEST_SKIP() << "this build has no sluiced";
  }
};

TEST_F(bench_sluiced, measures_both_protocols) {
  onnx_graph graph;
  graph.input("x", {-1, 3}).output("y", {-1, 3}).node("Neg", {"x"}, {"y"});
  std::filesystem::create_directories(folder() / "models/negative/1");
  write_text(folder() / "models/negative/1/model.onnx", graph.message().SerializeAsString());
  const service_process service({"--models", (folder() / "models").string(), "--device", "host"},
                                true);
  const std::vector<std::string> arguments{
      "bench",     "service",
      "--http",    "127.0.0.1:" + std::to_string(service.port()),
      "--grpc",    "127.0.0.1:" + std::to_string(service.grpc_port()),
      "--model",   "negative",
      "--batch",   "4",
      "--clients", "3",
      "--rounds",  "2",
      "--seconds", "0.1",
      "--floor",   "--json"};
  auto outcome = run(arguments);
  // The model is loaded in the background.
  for (int i = 0; i < 100 && outcome.status != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    outcome = run(arguments);
  }
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const auto found = json::parse(outcome.output).at("service");
  EXPECT_EQ(found.at("input_bytes"), 48);
  EXPECT_EQ(found.at("output_bytes"), 48);
  const auto& rates = found.at("rates");
  ASSERT_EQ(rates.size(), 4U);
  EXPECT_EQ(rates.at(2).at("name"), "HTTP");
  EXPECT_EQ(rates.at(3).at("name"), "gRPC");
  for (const auto& row : rates) EXPECT_GT(row.at("per_second").at("median").get<double>(), 0);
}

}  // namespace
}  // namespace sluice::test
