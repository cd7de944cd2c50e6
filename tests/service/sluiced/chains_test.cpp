// SPDX-License-Identifier: Apache-2.0
// Chains of models as clients see them, beside double-precision numbers.
#include "tests/service/sluiced/served_folder.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace sluice::service::test {
namespace {

using nlohmann::json;
using sluice::test::onnx_graph;

constexpr std::size_t outer = 3;

/// The chain `text`: result = factor * tanh(page * weights), in two models.
class chains : public served_folder {
 protected:
  [[nodiscard]] onnx_graph features() const {
    onnx_graph g;
    g.input("x", {-1, columns}).output("y", {-1, outer});
    g.constant("w", weights_, {columns, outer});
    g.node("MatMul", {"x", "w"}, {"y"});
    return g;
  }
  /// Of the older operator set 7.
  [[nodiscard]] static onnx_graph scores(float factor) {
    onnx_graph g(7);
    g.input("x", {-1, outer}).output("y", {-1, outer});
    g.constant("factor", std::vector<float>{factor}, {1});
    g.node("Tanh", {"x"}, {"t"});
    g.node("Mul", {"t", "factor"}, {"y"});
    return g;
  }
  void put_chain(const std::string& name, const std::string& first, const std::string& second,
                 const std::string& others = "") const {
    std::filesystem::create_directories(folder() / name / "1");
    std::ofstream(folder() / name / "config.pbtxt") << others + R"(
platform: "ensemble"
max_batch_size: 64
input { name: "page" data_type: TYPE_FP32 dims: 5 }
output { name: "result" data_type: TYPE_FP32 dims: 3 }
ensemble_scheduling {
  step { model_name: ")" + first + R"(" input_map { key: "x" value: "page" }
         output_map { key: "y" value: "features" } }
  step { model_name: ")" + second + R"(" model_version: -1 input_map { key: "x" value: "features" }
         output_map { key: "y" value: "result" } }
}
)";
  }
  void put_models() const {
    put("features", 1, features().bytes());
    put("scores", 1, scores(2).bytes());
    put_chain("text", "features", "scores");
  }
  [[nodiscard]] static std::string infer(const std::vector<float>& x,
                                         const std::string& model = "text") {
    return json_request("/v2/models/" + model + "/infer",
                        {{"inputs",
                          {{{"name", "page"},
                            {"datatype", "FP32"},
                            {"shape", {x.size() / columns, columns}},
                            {"data", x}}}}});
  }
  [[nodiscard]] bool is_right(const raw_reply& reply, const std::vector<float>& x,
                              double factor) const {
    const auto output = json::parse(reply.body).at("outputs").at(0);
    const auto y = output.at("data").get<std::vector<float>>();
    if (output.at("name") != "result" || y.size() != x.size() / columns * outer) return false;
    for (std::size_t i = 0; i < y.size(); ++i) {
      double sum = 0;
      for (std::size_t k = 0; k < columns; ++k) {
        sum += double{x[i / outer * columns + k]} * double{weights_[k * outer + i % outer]};
      }
      if (std::abs(double{y[i]} - factor * std::tanh(sum)) > 1e-5) return false;
    }
    return true;
  }

 private:
  std::vector<float> weights_ = numbers(outer);
};

TEST_F(chains, are_models_to_clients) {
  put_models();
  start();
  const auto metadata = json::parse(ask_when_served(get("/v2/models/text")).body);
  EXPECT_EQ(metadata.at("platform"), "ensemble");
  EXPECT_EQ(metadata.at("versions"), json({"1"}));
  EXPECT_EQ(metadata.at("inputs"),
            json({{{"name", "page"}, {"datatype", "FP32"}, {"shape", {-1, columns}}}}));
  EXPECT_EQ(metadata.at("outputs"),
            json({{{"name", "result"}, {"datatype", "FP32"}, {"shape", {-1, outer}}}}));
  const auto config = json::parse(ask(get("/v2/models/text/config")).body);
  EXPECT_EQ(config.at("platform"), "ensemble");
  EXPECT_EQ(config.at("ensemble_scheduling").at("step").at(1).at("model_name"), "scores");
  EXPECT_EQ(ask_when_served(get("/v2/health/ready")).status, 200U);
  for (const std::size_t count : {1U, 7U, 64U}) {
    const auto x = numbers(count);
    const auto reply = ask(infer(x));
    ASSERT_EQ(reply.status, 200U) << reply.body;
    EXPECT_TRUE(is_right(reply, x, 2)) << reply.body;
  }
  EXPECT_EQ(ask(infer(numbers(65))).status, 400U) << "the batch is too large";
  const auto index = json::parse(ask(json_request("/v2/repository/index", json::object())).body);
  ASSERT_EQ(index.size(), 3U);
  EXPECT_EQ(index.at(2).at("name"), "text");
  EXPECT_EQ(index.at(2).at("state"), "READY");
  // A request is one launch of the chain, and none of the models that are its steps.
  const auto metrics = read_metrics();
  const auto launches = [&](const char* model) {
    return metrics.value("nv_inference_exec_count", {{"model", model}, {"version", "1"}});
  };
  EXPECT_EQ(launches("text"), 3);
  EXPECT_EQ(launches("features"), 0);
  EXPECT_EQ(launches("scores"), 0);
}

TEST_F(chains, are_loaded_again_with_a_step_in_traffic) {
  put_models();
  start();
  (void)ask_when_served(get("/v2/models/text"));
  const auto x = numbers(4);
  std::atomic<bool> is_over{false};
  std::atomic<std::size_t> older{0};
  std::atomic<std::size_t> newer{0};
  std::atomic<std::size_t> wrong{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back([&] {
      raw_client client(service().port());
      while (!is_over) {
        const bool is_late = newer != 0;
        client.send(infer(x));
        const auto reply = client.receive();
        if (!reply || reply->status != 200) {
          ++wrong;
          return;
        }
        if (is_right(*reply, x, 3)) {
          ++newer;
        } else if (!is_late && is_right(*reply, x, 2)) {
          ++older;
        } else {
          ++wrong;
        }
      }
    });
  }
  const auto wait_for = [](const std::atomic<std::size_t>& count) {
    for (int i = 0; i < 3000 && count < 50; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return count >= 50;
  };
  EXPECT_TRUE(wait_for(older));
  // The chain takes the highest version.
  put("scores", 2, scores(3).bytes());
  EXPECT_TRUE(wait_for(newer));
  // A worker that replaces another one loads it from the files that the front has open.
  for (const auto worker : service().workers()) ASSERT_EQ(::kill(worker, SIGKILL), 0);
  newer = 1;
  EXPECT_TRUE(wait_for(newer));
  is_over = true;
  for (auto& client : clients) client.join();
  EXPECT_EQ(wrong, 0U);
}

TEST_F(chains, keep_their_files_while_a_step_is_broken) {
  put_models();
  start();
  const auto x = numbers(3);
  EXPECT_TRUE(is_right(ask_when_served(infer(x)), x, 2));
  put("scores", 2, "this is no model");
  // The next model is loaded after that.
  put("third", 1, scores(1).bytes());
  EXPECT_EQ(
      ask_until(get("/v2/models/third"), [](const auto& reply) { return reply.status == 200; })
          .status,
      200U);
  EXPECT_TRUE(is_right(ask(infer(x)), x, 2));
  const auto load = ask(json_request("/v2/repository/models/text/load", json::object()));
  EXPECT_EQ(load.status, 403U) << "only over the Unix socket, or with a token";
}

TEST_F(chains, state_the_step_that_is_broken) {
  put_models();
  put("broken", 1, "this is no model");
  auto strange = scores(1);
  strange.node("DoesNotExist", {"x"}, {"z"});
  put("strange", 1, strange.bytes());
  put("wide", 1, [] {
    onnx_graph g;
    g.input("x", {-1, 4}).output("y", {-1, 4}).node("Neg", {"x"}, {"y"});
    return g.bytes();
  }());
  put("integers", 1, [] {
    onnx_graph g;
    g.input("x", onnx::TensorProto::INT64).output("y").node("Neg", {"x"}, {"y"});
    return g.bytes();
  }());
  put("named", 1, [] {
    onnx_graph g;
    g.input("other", {-1, 3}).output("y", {-1, 3}).node("Neg", {"other"}, {"y"});
    return g.bytes();
  }());
  put_chain("a", "features", "broken");
  put_chain("b", "features", "strange");
  put_chain("c", "features", "wide");
  put_chain("d", "features", "integers");
  put_chain("e", "features", "named");
  put_chain("f", "features", "nothing");
  put_chain("g", "features", "g");
  put_chain("h", "features", "scores", "name: 'other'");
  start();
  const auto expect_problem = [&](const std::string& chain, const std::string& problem) {
    const auto reply = ask_until(infer(numbers(1), chain), [&](const auto& r) {
      return r.body.find(problem) != std::string::npos;
    });
    EXPECT_EQ(reply.status, 503U) << chain;
    EXPECT_NE(reply.body.find(problem), std::string::npos) << reply.body;
    EXPECT_EQ(reply.body.find("/proc"), std::string::npos) << reply.body;
  };
  expect_problem("a", "step '1 (broken)': model.onnx: is not a model");
  expect_problem("b", "step '1 (strange)': node 'z' (DoesNotExist)");
  expect_problem("c", "step '1 (wide)': the value 'features' for the input 'x': the shape is");
  expect_problem("d", "step '1 (integers)': the value 'features' for the input 'x': the type is");
  expect_problem("e", "step '1 (named)': the input 'other' gets no value");
  expect_problem("f", "step '1 (nothing)': there is no such model");
  expect_problem("g", "step '1 (g)': a chain cannot be a step of a chain");
  expect_problem("h", "name must be the name of the folder");
  const auto x = numbers(2);
  EXPECT_TRUE(is_right(ask_when_served(infer(x)), x, 2)) << "other models are not affected";
}

}  // namespace
}  // namespace sluice::service::test
