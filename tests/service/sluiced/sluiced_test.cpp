// SPDX-License-Identifier: Apache-2.0
// sluiced with its worker, as clients see it, beside double-precision numbers.
#include "tests/service/sluiced/served_folder.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace sluice::service::test {
namespace {

using nlohmann::json;
using sluice::test::onnx_graph;

class sluiced : public served_folder {};

TEST_F(sluiced, serves_the_models_of_a_folder) {
  put("double", 1, scale(2).bytes());
  put("double", 3, scale(3).bytes());
  start();
  EXPECT_EQ(ask_when_served(get("/v2/health/ready")).status, 200U);
  const auto metadata = json::parse(ask_when_served(get("/v2/models/double")).body);
  EXPECT_EQ(metadata.at("versions"), json({"3"}));
  EXPECT_EQ(metadata.at("inputs"),
            json({{{"name", "x"}, {"datatype", "FP32"}, {"shape", {-1, columns}}}}));
  for (const std::size_t rows : {1U, 7U, 1000U}) {
    const auto x = numbers(rows);
    const auto reply = ask_when_served(binary_request("double", x));
    ASSERT_EQ(reply.status, 200U) << reply.body;
    EXPECT_TRUE(is_scaled(elements_of(reply), x, 3));
  }
  const auto x = numbers(2);
  const auto reply = ask(json_request(
      "/v2/models/double/versions/3/infer",
      {{"id", "seven"},
       {"inputs", {{{"name", "x"}, {"datatype", "FP32"}, {"shape", {2, columns}}, {"data", x}}}},
       {"outputs", {{{"name", "y"}}}}}));
  ASSERT_EQ(reply.status, 200U) << reply.body;
  const auto body = json::parse(reply.body);
  EXPECT_EQ(body.at("id"), "seven");
  EXPECT_EQ(body.at("model_version"), "3");
  EXPECT_TRUE(is_scaled(body.at("outputs").at(0).at("data").get<std::vector<float>>(), x, 3));
}

// A host device reads the inputs in place, but the program depends on the elements of this one.
TEST_F(sluiced, reads_a_shape_from_a_large_input) {
  onnx_graph g;
  g.input("x", {-2}).input("s", {-2}).output("y", {-2, -2});
  g.constant("begin", {std::int64_t{0}}).constant("end", {std::int64_t{2}});
  g.node("Slice", {"s", "begin", "end"}, {"first"});
  g.node("Cast", {"first"}, {"shape"}).with("to", onnx::TensorProto::INT64);
  g.node("Reshape", {"x", "shape"}, {"y"});
  put("shaped", 1, g.bytes());
  start();
  std::vector<float> s(20'000);  // 80 KB
  s[0] = 2;
  s[1] = 3;
  const std::vector<float> x{1, 2, 3, 4, 5, 6};
  const auto reply = ask_when_served(json_request(
      "/v2/models/shaped/infer",
      {{"inputs",
        {{{"name", "x"}, {"datatype", "FP32"}, {"shape", {x.size()}}, {"data", x}},
         {{"name", "s"}, {"datatype", "FP32"}, {"shape", {s.size()}}, {"data", s}}}}}));
  ASSERT_EQ(reply.status, 200U) << reply.body;
  const auto y = json::parse(reply.body).at("outputs").at(0);
  EXPECT_EQ(y.at("shape"), json({2, 3}));
  EXPECT_EQ(y.at("data").get<std::vector<float>>(), x);
}

TEST_F(sluiced, refuses_what_does_not_fit_the_model) {
  put("double", 1, scale(2).bytes());
  start();
  (void)ask_when_served(get("/v2/models/double"));
  const auto infer = [&](const json& inputs, const json& outputs = json::array()) {
    return ask(json_request("/v2/models/double/infer", {{"inputs", inputs}, {"outputs", outputs}}));
  };
  const json good{
      {"name", "x"}, {"datatype", "FP32"}, {"shape", {1, 5}}, {"data", {1, 2, 3, 4, 5}}};
  EXPECT_EQ(infer(json::array({good})).status, 200U);
  const auto changed = [&](const json& patch) {
    auto input = good;
    input.merge_patch(patch);
    return infer(json::array({input}));
  };
  const auto expect_refusal = [](const raw_reply& reply, unsigned status, const std::string& text) {
    EXPECT_EQ(reply.status, status) << reply.body;
    EXPECT_NE(json::parse(reply.body).at("error").get<std::string>().find(text), std::string::npos)
        << reply.body;
  };
  expect_refusal(changed({{"name", "z"}}), 400, "z");
  expect_refusal(changed({{"datatype", "FP64"}}), 400, "x");
  expect_refusal(changed({{"shape", {5, 1}}}), 400, "x");
  expect_refusal(changed({{"shape", {5}}}), 400, "x");
  expect_refusal(infer(json::array({good}), json::array({{{"name", "w"}}})), 400, "w");
  expect_refusal(infer(json::array()), 400, "x");
  expect_refusal(ask(binary_request("triple", numbers(1))), 404, "triple");
  expect_refusal(ask(get("/v2/models/double/versions/2")), 404, "2");
  expect_refusal(ask(get("/v2/models/..%2f..%2fetc")), 404, "etc");
  EXPECT_EQ(infer(json::array({good})).status, 200U);
}

TEST_F(sluiced, keeps_a_broken_model_from_the_others) {
  put("broken", 1, "this is no model");
  put("double", 1, scale(2).bytes());
  start();
  const auto x = numbers(3);
  EXPECT_TRUE(is_scaled(elements_of(ask_when_served(binary_request("double", x))), x, 2));
  EXPECT_EQ(ask_when_served(get("/v2/health/ready")).status, 200U);
  const auto reply = ask(binary_request("broken", x));
  EXPECT_EQ(reply.status, 503U);
  EXPECT_NE(reply.body.find("broken"), std::string::npos) << reply.body;
}

TEST_F(sluiced, keeps_a_version_whose_successor_it_cannot_compute) {
  put("double", 1, scale(2).bytes());
  start();
  (void)ask_when_served(get("/v2/models/double"));
  auto strange = scale(3);
  strange.node("DoesNotExist", {"x"}, {"z"});
  put("double", 2, strange.bytes());
  // The next model is loaded after that.
  put("triple", 1, scale(3).bytes());
  const auto x = numbers(3);
  for (int i = 0; i < 3000 && ask(get("/v2/models/triple")).status != 200; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(is_scaled(elements_of(ask(binary_request("triple", x))), x, 3));
  EXPECT_TRUE(is_scaled(elements_of(ask(binary_request("double", x))), x, 2));
}

TEST_F(sluiced, runs_the_warm_ups_of_a_model_before_it_serves_it) {
  const auto warm_up = [](int extent) {
    return "[[model_warmup]]\nname = \"rows\"\nbatch_size = 0\ncount = 2\n"
           "inputs.x = { data_type = \"TYPE_FP32\", dims = [7, " +
           std::to_string(extent) + "], random_data = true }\n";
  };
  put("double", 1, scale(2).bytes());
  put_config("double", warm_up(columns));
  put("triple", 1, scale(3).bytes());
  put_config("triple", warm_up(columns + 1));
  start();
  const auto x = numbers(3);
  EXPECT_TRUE(is_scaled(elements_of(ask_when_served(binary_request("double", x))), x, 2));
  // Models are loaded in the order of their names, or at once: the answer is there soon.
  auto reply = ask(get("/v2/models/triple"));
  for (int i = 0; i < 3000 && reply.body.find("rows") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    reply = ask(get("/v2/models/triple"));
  }
  EXPECT_EQ(reply.status, 503U);
  EXPECT_NE(reply.body.find("the warm-up \\\"rows\\\" failed: x"), std::string::npos) << reply.body;
}

TEST_F(sluiced, refuses_a_run_that_needs_more_memory_than_models_may_use) {
  // x of n numbers becomes n * n of them.
  onnx_graph g;
  g.input("x", {-1}).output("y", {});
  g.constant("first", std::vector<std::int64_t>{0});
  g.constant("second", std::vector<std::int64_t>{1});
  g.node("Unsqueeze", {"x", "first"}, {"row"});
  g.node("Unsqueeze", {"x", "second"}, {"column"});
  g.node("MatMul", {"column", "row"}, {"products"});
  g.node("ReduceSum", {"products"}, {"y"}).with("keepdims", 0);
  put("square", 1, g.bytes());
  start({"--memory", "64MiB"});
  const auto request = [](std::size_t n) {
    return json_request("/v2/models/square/infer", {{"inputs",
                                                     {{{"name", "x"},
                                                       {"datatype", "FP32"},
                                                       {"shape", {n}},
                                                       {"data", std::vector<int>(n, 1)}}}}});
  };
  const auto small = ask_when_served(request(10));
  ASSERT_EQ(small.status, 200U) << small.body;
  EXPECT_EQ(json::parse(small.body)["outputs"][0]["data"][0], 100);
  const auto large = ask(request(10'000));
  EXPECT_EQ(large.status, 429U) << large.body;
  EXPECT_EQ(ask(request(10)).status, 200U);
}

/// Clients that run a model all the time, each on a connection of its own.
class traffic {
 public:
  /// @param is_right  whether an answer with status 200 is right
  template <class IsRight>
  traffic(std::uint16_t port, std::size_t clients, const std::vector<float>& x, IsRight is_right) {
    for (std::size_t i = 0; i < clients; ++i) {
      threads_.emplace_back([this, port, x, is_right] {
        while (!is_over_) {
          raw_client client(port);
          const auto request = binary_request("double", x);
          while (!is_over_ && client.send(request)) {
            const auto reply = client.receive();
            if (!reply) {
              ++lost_;
              break;
            }
            if (reply->status == 503) {
              ++unavailable_;
            } else if (reply->status == 200 && is_right(elements_of(*reply))) {
              ++right_;
            } else {
              ++wrong_;
            }
          }
        }
      });
    }
  }
  traffic(const traffic&) = delete;
  traffic& operator=(const traffic&) = delete;
  ~traffic() { end(); }
  void end() {
    is_over_ = true;
    for (auto& thread : threads_) thread.join();
    threads_.clear();
  }
  /// Waits for `count` further right answers. False if there are none for a long time.
  [[nodiscard]] bool wait_for(std::size_t count) const {
    const auto end = right_ + count;
    for (int i = 0; i < 6000 && right_ < end; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return right_ >= end;
  }
  [[nodiscard]] std::size_t right() const { return right_; }
  [[nodiscard]] std::size_t wrong() const { return wrong_; }
  [[nodiscard]] std::size_t lost() const { return lost_; }
  [[nodiscard]] std::size_t unavailable() const { return unavailable_; }

 private:
  std::atomic<bool> is_over_{false};
  std::atomic<std::size_t> right_{0};
  std::atomic<std::size_t> wrong_{0};
  std::atomic<std::size_t> lost_{0};
  std::atomic<std::size_t> unavailable_{0};
  std::vector<std::thread> threads_;
};

TEST_F(sluiced, replaces_a_worker_that_is_killed) {
  put("double", 1, scale(2).bytes());
  start();
  (void)ask_when_served(get("/v2/models/double"));
  const auto x = numbers(100);
  traffic clients(service().port(), 4, x, [&](const auto& y) { return is_scaled(y, x, 2); });
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(clients.wait_for(20));
    const auto workers = service().workers();
    ASSERT_EQ(workers.size(), 1U);
    ASSERT_EQ(::kill(workers.front(), SIGKILL), 0);
  }
  EXPECT_TRUE(clients.wait_for(20));
  clients.end();
  EXPECT_EQ(clients.wrong(), 0U);
  EXPECT_EQ(clients.lost(), 0U);
}

TEST_F(sluiced, keeps_the_state_of_sequences_while_a_worker_is_replaced) {
  put("sum", 1, running_sum().bytes());
  put_config("sum", config_of_running_sum);
  put("double", 1, scale(2).bytes());
  start();
  (void)ask_when_served(get("/v2/models/sum"));
  (void)ask_when_served(get("/v2/models/double"));
  const auto config = json::parse(ask(get("/v2/models/sum/config")).body);
  EXPECT_EQ(config.at("sequence_batching").at("state").at(0).at("input_name"), "s");
  const auto request = [](const std::string& model, std::size_t id, const std::vector<float>& x,
                          bool starts, bool ends) {
    return json_request(
        "/v2/models/" + model + "/infer",
        {{"parameters",
          {{"sequence_id", id + 1}, {"sequence_start", starts}, {"sequence_end", ends}}},
         {"inputs",
          {{{"name", "x"}, {"datatype", "FP32"}, {"shape", {1, columns}}, {"data", x}}}}});
  };
  constexpr std::size_t sequences = 100;
  constexpr int rounds = 6;
  std::vector<std::vector<float>> sums(sequences, std::vector<float>(columns));
  raw_client client(service().port());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t id = 0; id < sequences; ++id) {
      if (id == 30 && (round == 1 || round == 3)) {
        const auto workers = service().workers();
        ASSERT_EQ(workers.size(), 1U);
        ASSERT_EQ(::kill(workers.front(), SIGKILL), 0);
      }
      const auto x = numbers(1);
      const auto text = request("sum", id, x, round == 0, round == rounds - 1);
      // While no worker serves, a request fails, and leaves the state as it was.
      std::optional<raw_reply> reply;
      for (int attempt = 0; attempt < 3000; ++attempt) {
        client.send(text);
        reply = client.receive();
        ASSERT_TRUE(reply);
        if (reply->status != 503) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      ASSERT_EQ(reply->status, 200U) << reply->body;
      const auto outputs = json::parse(reply->body).at("outputs");
      ASSERT_EQ(outputs.size(), 1U) << reply->body;
      for (std::size_t i = 0; i < columns; ++i) sums[id][i] += x[i];
      EXPECT_EQ(outputs.at(0).at("data").get<std::vector<float>>(), sums[id]) << round << " " << id;
    }
  }
  const auto lost = ask(request("sum", 0, numbers(1), false, false));
  EXPECT_EQ(lost.status, 409U);
  EXPECT_NE(lost.body.find("sequence lost"), std::string::npos) << lost.body;
  EXPECT_EQ(ask(request("double", 0, numbers(1), true, false)).status, 400U);

  // Without a sequence the request itself has to provide the state.
  json alone{{"inputs",
              {{{"name", "x"},
                {"datatype", "FP32"},
                {"shape", {1, columns}},
                {"data", std::vector<float>(columns, 1)}}}}};
  const auto incomplete = ask(json_request("/v2/models/sum/infer", alone));
  EXPECT_EQ(incomplete.status, 400U);
  EXPECT_NE(incomplete.body.find("sequence_id is missing"), std::string::npos) << incomplete.body;
  alone["inputs"].push_back(alone["inputs"][0]);
  alone["inputs"][1]["name"] = "s";
  const auto complete = ask(json_request("/v2/models/sum/infer", alone));
  ASSERT_EQ(complete.status, 200U) << complete.body;
  EXPECT_EQ(json::parse(complete.body).at("outputs").at(0).at("data").get<std::vector<float>>(),
            std::vector<float>(columns, 2));
}

TEST_F(sluiced, replaces_a_worker_that_hangs) {
  put("double", 1, scale(2).bytes());
  start({"--hang-timeout", "1"});
  (void)ask_when_served(get("/v2/models/double"));
  const auto x = numbers(10);
  traffic clients(service().port(), 2, x, [&](const auto& y) { return is_scaled(y, x, 2); });
  ASSERT_TRUE(clients.wait_for(20));
  const auto hung = service().workers();
  ASSERT_EQ(hung.size(), 1U);
  ASSERT_EQ(::kill(hung.front(), SIGSTOP), 0);
  EXPECT_TRUE(clients.wait_for(20));
  clients.end();
  EXPECT_EQ(clients.wrong(), 0U);
  EXPECT_EQ(clients.lost(), 0U);
  EXPECT_NE(service().workers(), hung);
}

TEST_F(sluiced, answers_by_one_worker_while_the_other_is_replaced) {
  put("double", 1, scale(2).bytes());
  start({"--device", "host", "--device", "host"});
  (void)ask_when_served(get("/v2/models/double"));
  const auto x = numbers(10);
  traffic clients(service().port(), 3, x, [&](const auto& y) { return is_scaled(y, x, 2); });
  ASSERT_TRUE(clients.wait_for(20));
  const auto workers = service().workers();
  ASSERT_EQ(workers.size(), 2U);
  for (const auto worker : workers) {
    // The one that has just been replaced has loaded the model when the other one is killed.
    ASSERT_TRUE(clients.wait_for(1000));
    ASSERT_EQ(::kill(worker, SIGKILL), 0);
    ASSERT_TRUE(clients.wait_for(20));
    for (int i = 0; i < 3000 && service().workers().size() < 2; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  clients.end();
  EXPECT_EQ(clients.wrong(), 0U);
  EXPECT_EQ(clients.lost(), 0U);
}

TEST_F(sluiced, replaces_a_model_in_traffic) {
  put("double", 1, scale(2).bytes());
  start();
  (void)ask_when_served(get("/v2/models/double"));
  const auto x = numbers(10);
  std::atomic<std::size_t> tripled{0};
  traffic clients(service().port(), 3, x, [&](const auto& y) {
    if (!is_scaled(y, x, 3)) return tripled == 0 && is_scaled(y, x, 2);
    ++tripled;
    return true;
  });
  ASSERT_TRUE(clients.wait_for(20));
  put("double", 2, scale(3).bytes());
  for (int i = 0; i < 6000 && tripled < 100; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  clients.end();
  EXPECT_GE(tripled, 100U);
  EXPECT_EQ(clients.lost(), 0U);
  EXPECT_EQ(clients.unavailable(), 0U);
}

TEST_F(sluiced, counts_what_its_clients_count) {
  put("double", 1, scale(2).bytes());
  start({"--log", "json"});
  (void)ask_when_served(get("/v2/models/double"));
  const auto x = numbers(10);
  traffic clients(service().port(), 3, x, [&](const auto& y) { return is_scaled(y, x, 2); });
  ASSERT_TRUE(clients.wait_for(100));
  const auto workers = service().workers();
  ASSERT_EQ(workers.size(), 1U);
  ASSERT_EQ(::kill(workers.front(), SIGKILL), 0);
  ASSERT_TRUE(clients.wait_for(100));
  clients.end();
  ASSERT_EQ(clients.wrong() + clients.lost(), 0U);

  const auto metrics = read_metrics();
  const metric_labels model{{"model", "double"}, {"version", "1"}};
  const auto right = static_cast<double>(clients.right());
  EXPECT_EQ(metrics.value("nv_inference_request_success", model), right);
  EXPECT_LE(metrics.value("nv_inference_request_failure", model),
            static_cast<double>(clients.unavailable()));
  EXPECT_EQ(metrics.value("sluice_model_device_seconds_count", model), right);
  EXPECT_LE(metrics.value("nv_inference_exec_count", model), right);
  EXPECT_GT(metrics.value("nv_inference_compute_infer_duration_us", model), 0);
  EXPECT_LE(metrics.value("nv_inference_compute_infer_duration_us", model) +
                metrics.value("nv_inference_queue_duration_us", model),
            metrics.value("nv_inference_request_duration_us", model));
  EXPECT_EQ(metrics.value("sluice_worker_restarts_total", {{"worker", "0"}}), 1);
  const auto statistics =
      json::parse(ask(get("/v2/models/double/stats")).body).at("model_stats").at(0);
  EXPECT_EQ(statistics.at("inference_stats").at("success").at("count"), clients.right());
}

TEST_F(sluiced, answers_what_it_has_got_before_it_ends) {
  put("double", 1, scale(2).bytes());
  start();
  (void)ask_when_served(get("/v2/models/double"));
  const auto x = numbers(100'000);
  std::vector<std::unique_ptr<raw_client>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<raw_client>(service().port()));
    clients.back()->send(binary_request("double", x));
  }
  // The first answer shows that the requests have reached the service.
  const auto first = clients.front()->receive();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->status, 200U);
  service().signal(SIGTERM);
  for (std::size_t i = 1; i < clients.size(); ++i) {
    const auto reply = clients[i]->receive();
    if (reply) {
      EXPECT_TRUE(is_scaled(elements_of(*reply), x, 2));
    }
  }
  EXPECT_EQ(service().wait(), 0);
}

}  // namespace
}  // namespace sluice::service::test
