// SPDX-License-Identifier: Apache-2.0
// Requests over HTTP about the repository and the configs of models.
#include "service/front/http_server.hpp"
#include "tests/service/front/compressed.hpp"
#include "tests/service/front/raw_client.hpp"
#include "tests/service/front/scripted_backend.hpp"
#include "tests/service/front/token_file.hpp"

#include <gtest/gtest.h>

#include <future>
#include <initializer_list>
#include <string>
#include <thread>
#include <utility>

namespace sluice::service {
namespace {

using test::raw_client;
using test::scripted_backend;

/// The options of a server that lets these tests load models.
http_options options_with_tokens() {
  static const test::token_file tokens;
  return {.port = 0, .access = tokens.policy()};
}

const std::string authorization = "Authorization: Bearer root-token\r\n";

std::string authorized_post(const std::string& path, const std::string& body = "",
                            const std::string& fields = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" + authorization + fields +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string authorized_get(const std::string& path) {
  return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + authorization + "\r\n";
}

test::raw_reply reply_to(const http_server& server, const std::string& request) {
  raw_client client(server.port());
  client.send(request);
  return client.receive().value_or(test::raw_reply{});
}

TEST(repository_requests, list_the_index) {
  scripted_backend backend(test::echo);
  http_server server(options_with_tokens(), backend);
  raw_client client(server.port());
  for (const auto& [body, models] : std::initializer_list<std::pair<const char*, const char*>>{
           {"", R"([{"name":"broken","version":"2","state":"UNAVAILABLE",)"
                R"("reason":"it is \"broken\""},{"name":"m","version":"1","state":"READY"}])"},
           {R"({"ready":true})", R"([{"name":"m","version":"1","state":"READY"}])"}}) {
    client.send(authorized_post("/v2/repository/index", body));
    const auto reply = client.receive();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status, 200U);
    EXPECT_EQ(reply->body, models);
  }
  client.send(authorized_get("/v2/repository/index"));
  EXPECT_EQ(client.receive()->status, 405U);
  client.send(authorized_post("/v2/repository/index", R"({"ready":"yes"})"));
  EXPECT_EQ(client.receive()->status, 400U);
}

TEST(repository_requests, answer_the_config_of_a_model) {
  scripted_backend backend(test::echo);
  http_server server(options_with_tokens(), backend);
  const auto config = [&](const std::string& path) {
    return reply_to(server, authorized_get(path));
  };
  const auto reply = config("/v2/models/m/config");
  EXPECT_EQ(reply.status, 200U);
  EXPECT_NE(reply.body.find(R"("input":[{"name":"a","data_type":"TYPE_UINT8","dims":[-1]}])"),
            std::string::npos)
      << reply.body;
  EXPECT_EQ(config("/v2/models/m/versions/1/config").status, 200U);
  EXPECT_EQ(config("/v2/models/m/versions/2/config").status, 404U);
}

TEST(repository_requests, reach_the_backend_in_any_form) {
  scripted_backend backend(test::echo);
  std::string model;
  backend.on_load = [&](std::string name, const load_answer& done) {
    model = std::move(name);
    done(std::nullopt);
  };
  http_server server(options_with_tokens(), backend);
  EXPECT_EQ(reply_to(server, authorized_post("/v2/repository/models/a%20b/load")).status, 200U);
  EXPECT_EQ(model, "a b");
  EXPECT_EQ(reply_to(server, authorized_post("/v2/repository/models/c/load", "{}")).status, 200U);
  EXPECT_EQ(model, "c");
  EXPECT_EQ(
      reply_to(server, "POST /v2/repository/models/d/load HTTP/1.1\r\nHost: localhost\r\n" +
                           authorization + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
          .status,
      200U);
  EXPECT_EQ(model, "d");
  const auto body = test::compressed("{}", content_coding::gzip);
  EXPECT_EQ(reply_to(server, authorized_post("/v2/repository/models/e/load", body,
                                             "Content-Encoding: gzip\r\n"))
                .status,
            200U);
  EXPECT_EQ(model, "e");
  EXPECT_EQ(reply_to(server, authorized_post("/v2/repository/models/m/unload",
                                             R"({"parameters":{"unload_dependents":false}})"))
                .status,
            200U);
}

TEST(repository_requests, are_refused_before_they_reach_the_backend) {
  scripted_backend backend(test::echo);
  backend.on_load = [](const auto&, const auto& done) {
    ADD_FAILURE() << "it was loaded";
    done(std::nullopt);
  };
  http_server server(options_with_tokens(), backend);
  const auto load = [&](const std::string& body) {
    return reply_to(server, authorized_post("/v2/repository/models/m/load", body)).status;
  };
  EXPECT_EQ(load(R"({"parameters":{"config":"{}"}})"), 501U);
  EXPECT_EQ(load(R"({"parameters":{"file:1/model.onnx":"AA"}})"), 501U);
  EXPECT_EQ(load("[]"), 400U);
  EXPECT_EQ(load(std::string(65537, ' ')), 413U);
  std::string chunks;
  for (int i = 0; i < 9; ++i) chunks += "2000\r\n" + std::string(0x2000, ' ') + "\r\n";
  EXPECT_EQ(reply_to(server, "POST /v2/repository/models/m/load HTTP/1.1\r\nHost: localhost\r\n" +
                                 authorization + "Transfer-Encoding: chunked\r\n\r\n" + chunks)
                .status,
            413U);
}

TEST(repository_requests, are_answered_with_the_reason) {
  scripted_backend backend(test::echo);
  backend.on_load = [](const auto&, const auto& done) {
    done(request_error(request_status::invalid_argument, "it is no model"));
  };
  backend.on_unload = [](const auto&, const auto&) -> void {
    throw request_error(request_status::not_found, "there is no such model");
  };
  http_server server(options_with_tokens(), backend);
  raw_client client(server.port());
  client.send(authorized_post("/v2/repository/models/m/load"));
  auto reply = client.receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 400U);
  EXPECT_EQ(reply->body, R"({"error":"it is no model"})");
  client.send(authorized_post("/v2/repository/models/m/unload"));
  EXPECT_EQ(client.receive()->status, 404U);
}

TEST(repository_requests, outlive_their_client) {
  scripted_backend backend(test::echo);
  std::promise<load_answer> begun;
  backend.on_load = [&](const auto&, load_answer done) {
    begun.set_value(std::move(done));
  };
  http_server server(options_with_tokens(), backend);
  load_answer done;
  {
    raw_client client(server.port());
    client.send(authorized_post("/v2/repository/models/m/load"));
    done = begun.get_future().get();
  }
  while (server.connections() > 0) std::this_thread::yield();
  done(std::nullopt);
  EXPECT_EQ(reply_to(server, authorized_get("/v2")).status, 200U);
}

TEST(repository_requests, in_flight_are_answered_during_a_drain) {
  scripted_backend backend(test::echo);
  std::promise<load_answer> begun;
  backend.on_load = [&](const auto&, load_answer done) {
    begun.set_value(std::move(done));
  };
  http_server server(options_with_tokens(), backend);
  raw_client client(server.port());
  client.send(authorized_post("/v2/repository/models/m/load"));
  const auto done = begun.get_future().get();
  auto stopped = std::async(std::launch::async, [&] { server.stop(std::chrono::hours(1)); });
  done(std::nullopt);
  const auto reply = client.receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 200U);
  stopped.get();
}

TEST(repository_requests, meet_the_deadline_of_the_client) {
  scripted_backend backend(test::echo);
  backend.on_load = [](const auto&, const auto&) {
  };
  http_server server(options_with_tokens(), backend);
  const auto reply = reply_to(server, authorized_post("/v2/repository/models/m/load", "",
                                                      "Inference-Timeout-Us: 1000\r\n"));
  EXPECT_EQ(reply.status, 504U);
}

}  // namespace
}  // namespace sluice::service
