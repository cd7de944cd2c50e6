// SPDX-License-Identifier: Apache-2.0
// The metrics port, beside a server of clients.
#include "service/front/status_router.hpp"

#include "tests/service/front/raw_client.hpp"
#include "tests/service/front/scripted_backend.hpp"
#include "tests/service/metrics/parsed_metrics.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace sluice::service {
namespace {

using nlohmann::json;
using test::parsed_metrics;
using test::raw_client;
using test::raw_reply;
using test::scripted_backend;

std::string infer_request(const std::string& input, const std::string& output_parameters = "") {
  const auto body = R"({"inputs":[{"name":"a","datatype":"FP32","shape":[1],"data":[)" + input +
                    "]}]" + output_parameters + "}";
  return "POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

class status_router_test : public ::testing::Test {
 protected:
  static raw_reply ask(const http_server& server, const std::string& request,
                       bool has_body = true) {
    raw_client client(server.port());
    client.send(request);
    return client.receive(has_body).value_or(raw_reply{});
  }
  static std::string get(const std::string& path, const std::string& host = "localhost",
                         const std::string& fields = "") {
    return "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + fields + "\r\n";
  }
  [[nodiscard]] raw_reply ask_page(const std::string& path) { return ask(page_, get(path)); }
  [[nodiscard]] parsed_metrics metrics() { return parsed_metrics(ask_page("/metrics").body); }

  scripted_backend backend_{[this](scripted_backend& backend, test::submitted request) {
    // Requests for other inputs than a fail.
    if (request.run.inputs.front().name != "a") {
      return request.done({.error = request_error(request_status::invalid_argument, "no input")});
    }
    if (holds_) return backend.hold(std::move(request));
    test::echo(backend, std::move(request));
  }};
  bool holds_ = false;
  http_server clients_{{.port = 0}, backend_};
  status_router router_{backend_, clients_};
  http_server page_{{.port = 0}, backend_, router_};
};

TEST_F(status_router_test, answers_its_paths) {
  const std::map<std::string, std::string> types{
      {"/", "text/html; charset=utf-8"},
      {"/status.js", "text/javascript; charset=utf-8"},
      {"/status.css", "text/css; charset=utf-8"},
      {"/status.json", "application/json"},
      {"/metrics", "text/plain; version=0.0.4; charset=utf-8"}};
  for (const auto& [path, type] : types) {
    const auto reply = ask_page(path);
    EXPECT_EQ(reply.status, 200U) << path;
    EXPECT_EQ(reply.field("Content-Type"), type) << path;
    EXPECT_EQ(reply.field("X-Content-Type-Options"), "nosniff") << path;
    EXPECT_EQ(reply.field("Content-Security-Policy"),
              "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
              "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
        << path;
    EXPECT_FALSE(reply.body.empty()) << path;
    const auto head = ask(page_, "HEAD " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n", false);
    EXPECT_EQ(head.status, 200U) << path;
    for (const char* method : {"POST", "PUT", "DELETE"}) {
      const auto refused =
          ask(page_, method + (" " + path) + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
      EXPECT_EQ(refused.status, 405U) << path;
      EXPECT_EQ(refused.field("Allow"), "GET, HEAD, OPTIONS") << path;
    }
  }
  // Those of the protocol are on the other port, and the other way round.
  for (const char* path : {"/v2", "/v2/models/m", "/v2/models/m/infer", "/x", "/metrics/",
                           "/status.html", "//", "/../metrics"}) {
    EXPECT_EQ(ask_page(path).status, 404U) << path;
  }
  EXPECT_EQ(ask(page_, infer_request("1")).status, 404U);
  for (const char* path : {"/", "/metrics", "/status.json"}) {
    EXPECT_EQ(ask(clients_, get(path)).status, 404U) << path;
  }
}

TEST_F(status_router_test, answers_no_pages_of_others) {
  EXPECT_EQ(ask(page_, get("/metrics", "attacker.example")).status, 403U);
  EXPECT_EQ(ask(page_, get("/", "localhost", "Origin: http://attacker.example\r\n")).status, 403U);
  EXPECT_EQ(ask(page_, get("/", "127.0.0.1:8002")).status, 200U);
  EXPECT_EQ(metrics().value("sluice_requests_refused_total", {{"reason", "foreign_origin"}}), 0)
      << "they did not come to the port of clients";
  EXPECT_EQ(ask(clients_, get("/v2", "attacker.example")).status, 403U);
  EXPECT_EQ(metrics().value("sluice_requests_refused_total", {{"reason", "foreign_origin"}}), 1);
}

TEST_F(status_router_test, counts_as_its_clients_do) {
  auto generator = sluice::test::make_generator();
  constexpr std::size_t threads = 4;
  std::vector<std::map<unsigned, std::uint64_t>> counts(threads);
  std::vector<std::uint64_t> failures(threads), received(threads), sent(threads);
  std::vector<std::thread> clients;
  for (std::size_t t = 0; t < threads; ++t) {
    clients.emplace_back([&, t, seed = generator()] {
      std::mt19937_64 random(seed);
      raw_client client(clients_.port());
      for (int i = 0; i < 200; ++i) {
        auto request = infer_request(std::to_string(random() % 1000));
        const auto kind = random() % 6;
        if (kind == 0) request = get("/nothing");
        if (kind == 1) request.replace(request.find("\"a\""), 3, "\"b\"");
        if (kind == 1) ++failures[t];
        if (kind == 2) request.replace(request.find("FP32"), 4, "FP99");
        client.send(request);
        const auto reply = client.receive();
        if (!reply) return;
        ++counts[t][reply->status];
        sent[t] += request.size();
        received[t] += reply->head.size() + 2 + reply->body.size();
      }
    });
  }
  for (auto& each : clients) each.join();
  // The server has seen the ends of the connections, and so all of their bytes.
  while (clients_.connections() > 0) std::this_thread::yield();

  std::map<unsigned, std::uint64_t> all;
  std::uint64_t failed = 0, bytes_sent = 0, bytes_received = 0;
  for (std::size_t t = 0; t < threads; ++t) {
    for (const auto& [status, count] : counts[t]) all[status] += count;
    failed += failures[t];
    bytes_sent += sent[t];
    bytes_received += received[t];
  }
  const auto text = metrics();
  std::uint64_t requests = 0;
  for (const auto& [status, count] : all) {
    EXPECT_EQ(text.value("sluice_http_requests_total", {{"code", std::to_string(status)}}),
              static_cast<double>(count))
        << status;
    requests += count;
  }
  EXPECT_EQ(requests, threads * 200);
  EXPECT_EQ(text.values_of("code").size(), all.size());
  EXPECT_EQ(text.value("sluice_http_request_seconds_count"), static_cast<double>(requests));
  EXPECT_EQ(text.value("sluice_http_received_bytes_total"), static_cast<double>(bytes_sent));
  EXPECT_EQ(text.value("sluice_http_sent_bytes_total"), static_cast<double>(bytes_received));
  EXPECT_EQ(text.value("sluice_http_requests_in_flight"), 0);
  EXPECT_EQ(text.value("sluice_http_connections"), 0);
  const test::metric_labels m{{"model", "m"}, {"version", "1"}};
  EXPECT_EQ(text.value("nv_inference_request_success", m), static_cast<double>(all[200]));
  EXPECT_EQ(text.value("nv_inference_request_failure", m), static_cast<double>(failed));
  EXPECT_EQ(text.values_of("model"), std::set<std::string>{"m"});

  const auto statistics =
      json::parse(ask(clients_, get("/v2/models/m/versions/1/stats")).body).at("model_stats").at(0);
  EXPECT_EQ(statistics.at("inference_count"), all[200]);
  EXPECT_EQ(statistics.at("inference_stats").at("success").at("count"), all[200]);
  EXPECT_EQ(statistics.at("inference_stats").at("fail").at("count"), failed);
  const auto status = json::parse(ask_page("/status.json").body);
  EXPECT_EQ(status.at("models").at(0).at("successes"), all[200]);
}

TEST_F(status_router_test, counts_clients_that_hang_up) {
  holds_ = true;
  raw_client client(clients_.port());
  client.send(infer_request("1"));
  const auto held = backend_.take_held();
  EXPECT_EQ(metrics().value("sluice_http_requests_in_flight"), 1);
  EXPECT_EQ(metrics().value("sluice_model_requests_in_flight", {{"model", "m"}, {"version", "1"}}),
            1);
  client.close();
  backend_.wait_until_cancelled(held.number);
  while (clients_.connections() > 0) std::this_thread::yield();
  EXPECT_EQ(metrics().value("sluice_http_requests_in_flight"), 0);
  EXPECT_EQ(metrics().value("sluice_http_requests_total", {{"code", "499"}}), 1);
  EXPECT_EQ(metrics().value("nv_inference_request_failure", {{"model", "m"}, {"version", "1"}}), 1);
}

TEST_F(status_router_test, advertises_and_answers_statistics) {
  EXPECT_NE(ask(clients_, get("/v2")).body.find("\"statistics\""), std::string::npos);
  EXPECT_EQ(ask(clients_, get("/v2/models/stats")).status, 200U);
  EXPECT_EQ(ask(clients_, get("/v2/models/m/stats")).status, 200U);
  EXPECT_EQ(ask(clients_, get("/v2/models/n/stats")).status, 404U);
  EXPECT_EQ(ask(clients_, get("/v2/models/m/versions/2/stats")).status, 404U);
  const auto refused = ask(
      clients_, "POST /v2/models/m/stats HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(refused.status, 405U);
}

TEST_F(status_router_test, forgets_models_that_are_gone) {
  backend_.others.push_back({.model = "<script>alert(1)</script>",
                             .version = 9,
                             .statistics = std::make_shared<model_statistics>()});
  EXPECT_EQ(metrics().values_of("model"),
            (std::set<std::string>{"<script>alert(1)</script>", "m"}));
  const auto page = ask_page("/").body;
  EXPECT_EQ(page.find("alert"), std::string::npos) << "the page has no text of models";
  backend_.others.clear();
  EXPECT_EQ(metrics().values_of("model"), std::set<std::string>{"m"});
}

}  // namespace
}  // namespace sluice::service
