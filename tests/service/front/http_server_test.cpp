// SPDX-License-Identifier: Apache-2.0
#include "service/front/http_server.hpp"

#include "tests/service/front/compressed.hpp"
#include "tests/service/front/raw_client.hpp"
#include "tests/service/front/scripted_backend.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

using std::chrono::milliseconds;
using test::raw_client;
using test::scripted_backend;

http_options any_port(milliseconds deadline = milliseconds(60'000)) {
  http_options options{.port = 0};
  options.deadlines.idle = deadline;
  options.deadlines.head = deadline;
  options.deadlines.body = deadline;
  options.deadlines.write = deadline;
  return options;
}

std::string get(const std::string& path, const std::string& fields = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
}

std::string post_head(const std::string& fields) {
  return "POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
}

std::string json_for(const std::string& tensor, const std::string& more = "") {
  return R"({"id":"7","inputs":[{"name":"a","datatype":"UINT8","shape":[)" +
         std::to_string(tensor.size()) + R"(],"parameters":{"binary_data_size":)" +
         std::to_string(tensor.size()) + R"(}}],"parameters":{"binary_data_output":true)" + more +
         "}}";
}

/// An infer request with a binary tensor.
std::string infer(const std::string& tensor, const std::string& fields = "",
                  const std::string& parameters = "") {
  const std::string json = json_for(tensor, parameters);
  return post_head("Content-Length: " + std::to_string(json.size() + tensor.size()) +
                   "\r\nInference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n" +
                   fields) +
         json + tensor;
}

/// Likewise, for a reply in JSON.
std::string infer_for_json(const std::string& tensor) {
  const std::string bytes = std::to_string(tensor.size());
  const std::string json = R"({"inputs":[{"name":"a","datatype":"UINT8","shape":[)" + bytes +
                           R"(],"parameters":{"binary_data_size":)" + bytes + "}}]}";
  return post_head("Content-Length: " + std::to_string(json.size() + tensor.size()) +
                   "\r\nInference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n") +
         json + tensor;
}

std::string infer_json(const std::string& json) {
  return post_head("Content-Length: " + std::to_string(json.size()) + "\r\n") + json;
}

/// The status of the next reply; 0 at the end of the connection.
unsigned status_of(raw_client& client) {
  const auto reply = client.receive();
  return reply ? reply->status : 0;
}

unsigned ask(const http_server& server, const std::string& request) {
  raw_client client(server.port());
  client.send(request);
  return status_of(client);
}

void expect_tensor(const std::optional<test::raw_reply>& reply, const std::string& tensor) {
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 200U) << reply->body;
  EXPECT_EQ(reply->field("Content-Type"), "application/octet-stream");
  const auto json = reply->field("Inference-Header-Content-Length");
  ASSERT_TRUE(json);
  EXPECT_TRUE(reply->body.substr(std::stoul(*json)) == tensor);
}

void expect_error(const std::optional<test::raw_reply>& reply, unsigned status) {
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, status) << reply->body;
  EXPECT_EQ(reply->field("Content-Type"), "application/json");
  EXPECT_EQ(reply->body.substr(0, 10), R"({"error":")");
}

TEST(http_server, echoes_a_binary_tensor) {
  scripted_backend backend(test::echo);
  http_server server(any_port(), backend);
  raw_client client(server.port());
  for (const std::size_t bytes : {0, 1, 64, 4096, 100'000, 5'000'000}) {
    const std::string tensor(bytes, 'x');
    ASSERT_TRUE(client.send(infer(tensor)));
    expect_tensor(client.receive(), tensor);
  }
  backend.wait_until_free();
}

TEST(http_server, echoes_json) {
  scripted_backend backend(test::echo);
  http_server server(any_port(), backend);
  raw_client client(server.port());
  client.send(infer_json(
      R"({"id":"7","inputs":[{"name":"a","datatype":"FP32","shape":[2],"data":[1.5,-2]}]})"));
  const auto reply = client.receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 200U);
  EXPECT_EQ(reply->field("Content-Type"), "application/json");
  EXPECT_FALSE(reply->field("Inference-Header-Content-Length"));
  EXPECT_NE(reply->body.find(R"("id":"7")"), std::string::npos) << reply->body;
  EXPECT_NE(reply->body.find("[1.5,-2.0]"), std::string::npos) << reply->body;
}

TEST(http_server, long_json_is_parsed_and_written_apart) {
  scripted_backend backend(test::echo);
  http_server server(any_port(), backend);
  raw_client client(server.port());
  std::string elements = "7";
  for (int i = 1; i < 100'000; ++i) elements += ",7";
  for (int round = 0; round < 2; ++round) {
    client.send(
        infer_json(R"({"inputs":[{"name":"a","datatype":"UINT8","shape":[100000],"data":[)" +
                   elements + "]}]}"));
    const auto reply = client.receive();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status, 200U);
    EXPECT_NE(reply->body.find("[" + elements + "]"), std::string::npos);
  }
  EXPECT_EQ(server.json_bytes(), 0U);
  client.send(infer_json("[" + elements + "]"));
  expect_error(client.receive(), 400);
}

TEST(http_server, outputs_are_binary_as_the_request_says) {
  scripted_backend backend(test::echo);
  http_server server(any_port(), backend);
  raw_client client(server.port());
  const std::string input =
      R"({"inputs":[{"name":"a","datatype":"UINT8","shape":[1],"data":[65]}])";
  client.send(
      infer_json(input + R"(,"outputs":[{"name":"a","parameters":{"binary_data":true}}]})"));
  expect_tensor(client.receive(), "A");
  client.send(infer_json(input +
                         R"(,"parameters":{"binary_data_output":true},)"
                         R"("outputs":[{"name":"a","parameters":{"binary_data":false}}]})"));
  const auto reply = client.receive();
  ASSERT_TRUE(reply);
  EXPECT_FALSE(reply->field("Inference-Header-Content-Length"));
  EXPECT_NE(reply->body.find("[65]"), std::string::npos);
}

TEST(http_server, nan_in_a_json_reply_is_an_error) {
  scripted_backend backend([](scripted_backend&, test::submitted request) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(request.inputs->tensor(0).data(), &nan, sizeof nan);
    request.done(test::echo_of(request));
  });
  http_server server(any_port(), backend);
  raw_client client(server.port());
  client.send(infer_json(R"({"inputs":[{"name":"a","datatype":"FP32","shape":[1],"data":[0]}]})"));
  expect_error(client.receive(), 400);
}

TEST(http_server, reads_requests_in_pieces_of_any_size) {
  scripted_backend backend(test::echo);
  http_server server(any_port(), backend);
  const std::string tensor = "0123456789";
  const std::string json = json_for(tensor);
  const std::string chunks = post_head(
                                 "Transfer-Encoding: chunked\r\n"
                                 "Inference-Header-Content-Length: " +
                                 std::to_string(json.size()) + "\r\n") +
                             test::chunked(json + tensor, 50);
  for (const auto& request : {infer(tensor), chunks}) {
    raw_client client(server.port());
    for (std::size_t split = 1; split < request.size(); ++split) {
      ASSERT_TRUE(client.send(request.substr(0, split)));
      ASSERT_TRUE(client.send(request.substr(split)));
      expect_tensor(client.receive(), tensor);
    }
    for (const char c : request) ASSERT_TRUE(client.send({&c, 1}));
    expect_tensor(client.receive(), tensor);
  }
}

TEST(http_server, answers_pipelined_requests_in_order) {
  auto random = sluice::test::make_generator();
  scripted_backend backend([](scripted_backend&, test::submitted request) {
    std::thread([held = std::move(request)]() mutable { held.done(test::echo_of(held)); }).detach();
  });
  http_server server(any_port(), backend);
  raw_client client(server.port());
  std::vector<std::string> tensors(200);
  std::string requests;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tensors[i] = std::string(random() % 2000, static_cast<char>('a' + i % 26));
    requests += infer(tensors[i]);
    if (i % 10 == 0) requests += get("/v2/health/live") + "\r\n";
  }
  std::thread sender([&] { client.send(requests); });
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    expect_tensor(client.receive(), tensors[i]);
    if (i % 10 == 0) {
      const auto reply = client.receive();
      ASSERT_TRUE(reply);
      EXPECT_EQ(reply->body, R"({"live":true})");
    }
  }
  sender.join();
  backend.wait_until_free();
}

TEST(http_server, the_backend_learns_what_the_request_says) {
  scripted_backend backend(test::hold);
  http_server server(any_port(), backend);
  const std::string json =
      R"({"inputs":[{"name":"a","datatype":"INT16","shape":[1,2],"data":[1,2]}],)"
      R"("outputs":[{"name":"b"}],"parameters":{"priority":3,"timeout":3600000000}})";
  std::string request = infer_json(json);
  request.replace(request.find("/m/"), 3, "/%6d/versions/1/");
  raw_client client(server.port());
  raw_client other(server.port());
  const auto before = std::chrono::steady_clock::now();
  client.send(request);
  auto first = backend.take_held();
  EXPECT_EQ(first.run.model, "m");
  EXPECT_EQ(first.run.version, "1");
  ASSERT_EQ(first.run.inputs.size(), 1U);
  EXPECT_EQ(first.run.inputs[0].name, "a");
  EXPECT_EQ(first.run.inputs[0].type, datatype::int16);
  EXPECT_EQ(first.run.inputs[0].shape, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(first.run.outputs, std::vector<std::string>{"b"});
  EXPECT_EQ(first.run.priority, 3U);
  ASSERT_TRUE(first.run.deadline);
  EXPECT_GE(*first.run.deadline, before + std::chrono::hours(1));
  EXPECT_LE(*first.run.deadline, std::chrono::steady_clock::now() + std::chrono::hours(1));

  other.send(infer("x"));
  auto second = backend.take_held();
  EXPECT_FALSE(second.run.deadline);
  EXPECT_NE(second.run.connection, first.run.connection);
  first.done(test::echo_of(first));
  second.done(test::echo_of(second));
  EXPECT_EQ(status_of(client), 200U);
  EXPECT_EQ(status_of(other), 200U);
}

TEST(http_server, the_smallest_timeout_wins) {
  scripted_backend backend(test::hold);
  http_server server(any_port(), backend);
  const auto bound = [&](const std::string& fields, const std::string& parameters) {
    raw_client client(server.port());
    client.send(infer("x", fields, parameters));
    auto held = backend.take_held();
    const auto deadline = held.run.deadline;
    held.done(test::echo_of(held));
    EXPECT_EQ(status_of(client), 200U);
    return deadline.value() - std::chrono::steady_clock::now();
  };
  using std::chrono::hours;
  const std::string two_hours = "Inference-Timeout-Us: 7200000000\r\n";
  const std::string four_hours = "X-Envoy-Expected-Rq-Timeout-Ms: 14400000\r\n";
  EXPECT_LE(bound(two_hours + four_hours, R"(,"timeout":21600000000)"), hours(2));
  EXPECT_LE(bound(four_hours, R"(,"timeout":21600000000)"), hours(4));
  EXPECT_LE(bound(four_hours, R"(,"timeout":3600000000)"), hours(1));
  EXPECT_GT(bound("", R"(,"timeout":18446744073709551615)"), hours(24));
}

TEST(http_server, a_late_result_does_not_delay_the_answer) {
  scripted_backend backend(test::hold);
  backend.answers_cancelled = false;
  http_server server(any_port(), backend);
  raw_client client(server.port());
  client.send(infer("x", "Inference-Timeout-Us: 300000\r\n"));
  auto held = backend.take_held();
  expect_error(client.receive(), 504);
  backend.wait_until_cancelled(held.number);
  held.done(test::echo_of(held));  // is dropped
  client.send(infer("y"));
  auto next = backend.take_held();
  next.done(test::echo_of(next));
  expect_tensor(client.receive(), "y");
}

TEST(http_server, a_hang_up_cancels_the_run) {
  for (const bool answers : {false, true}) {
    scripted_backend backend(test::hold);
    backend.answers_cancelled = answers;
    http_server server(any_port(), backend);
    const std::vector<std::function<void(raw_client&)>> ends{
        [](raw_client& client) { client.close(); }, [](raw_client& client) { client.reset(); },
        [](raw_client& client) { client.finish_sending(); },
        [](raw_client& client) {
          client.send("GET");
          client.close();
        }};
    for (const auto& end : ends) {
      raw_client client(server.port());
      client.send(infer("x"));
      auto held = backend.take_held();
      end(client);
      backend.wait_until_cancelled(held.number);
      held.done(test::echo_of(held));
    }
    backend.wait_until_free();
  }
}

TEST(http_server, a_hang_up_in_a_body_frees_its_memory) {
  scripted_backend backend(test::echo);
  http_server server(any_port(), backend);
  const std::string request = infer(std::string(1'000'000, 'x'));
  for (const std::size_t length : {request.size() - 1, request.size() - 999'999, std::size_t{20}}) {
    raw_client client(server.port());
    client.send(request.substr(0, length));
    while (length > 20 && backend.bytes() == 0) std::this_thread::yield();
    client.reset();
    backend.wait_until_free();
  }
  while (server.connections() > 0) std::this_thread::yield();
  EXPECT_EQ(backend.bytes(), 0U);
  EXPECT_EQ(backend.submissions(), 0U);
}

TEST(http_server, errors_of_the_backend_are_answers) {
  const std::vector<std::pair<request_status, unsigned>> cases{
      {request_status::invalid_argument, 400},   {request_status::not_found, 404},
      {request_status::resource_exhausted, 429}, {request_status::internal, 500},
      {request_status::unimplemented, 501},      {request_status::unavailable, 503},
      {request_status::deadline_exceeded, 504},  {request_status::cancelled, 499}};
  for (const bool throws : {false, true}) {
    for (const auto& [error, code] : cases) {
      scripted_backend backend([&, status = error](scripted_backend&, test::submitted request) {
        if (throws) throw request_error(status, "it \"failed\"\n");
        request.done({.error = request_error(status, "it \"failed\"\n")});
      });
      http_server server(any_port(), backend);
      raw_client client(server.port());
      for (int i = 0; i < 2; ++i) {
        client.send(infer("x"));
        const auto reply = client.receive();
        expect_error(reply, code);
        EXPECT_EQ(reply->body, R"({"error":"it \"failed\"\n"})");
        EXPECT_EQ(reply->field("Retry-After").has_value(), code == 429 || code == 503);
      }
    }
  }
}

TEST(http_server, other_exceptions_tell_nothing) {
  scripted_backend backend(
      [](scripted_backend&, const test::submitted&) { throw std::runtime_error("secret"); });
  http_server server(any_port(), backend);
  raw_client client(server.port());
  client.send(infer("x"));
  const auto reply = client.receive();
  expect_error(reply, 500);
  EXPECT_EQ(reply->body.find("secret"), std::string::npos);
}

TEST(http_server, a_result_counts_once) {
  scripted_backend backend([](scripted_backend&, test::submitted request) {
    request.done({.error = request_error(request_status::internal, "first")});
    request.done(test::echo_of(request));
  });
  http_server server(any_port(), backend);
  raw_client client(server.port());
  client.send(infer("x") + get("/v2/health/live"));
  expect_error(client.receive(), 500);
  EXPECT_EQ(status_of(client), 200U);
}

TEST(http_server, answers_queries) {
  scripted_backend backend(test::echo);
  http_server server(any_port(), backend);
  raw_client client(server.port());
  for (const char* path : {"/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/m",
                           "/v2/models/m/versions/1", "/v2/models/m/ready"}) {
    client.send(get(path));
    const auto reply = client.receive();
    ASSERT_TRUE(reply) << path;
    EXPECT_EQ(reply->status, 200U) << path;
    EXPECT_EQ(reply->field("Content-Type"), "application/json");
    EXPECT_EQ(reply->body.substr(0, 1), "{");

    std::string head = get(path);
    head.replace(0, 3, "HEAD");
    client.send(head);
    const auto same = client.receive(false);
    ASSERT_TRUE(same) << path;
    EXPECT_EQ(same->head, reply->head);
  }
  for (const char* path : {"/v2/models/other", "/v2/models/m/versions/2",
                           "/v2/models/m/versions/2/ready", "/other", "/v2/models/..%2f..%2fetc"}) {
    client.send(get(path));
    expect_error(client.receive(), 404);
  }
}

TEST(http_server, is_not_ready_before_its_backend) {
  scripted_backend backend(test::echo);
  backend.is_server_ready = false;
  http_server server(any_port(), backend);
  raw_client client(server.port());
  client.send(get("/v2/health/ready") + get("/v2/health/live"));
  expect_error(client.receive(), 503);
  EXPECT_EQ(status_of(client), 200U);
}

TEST(http_server, names_the_methods_of_a_path) {
  scripted_backend backend(test::echo);
  http_server server(any_port(), backend);
  raw_client client(server.port());
  client.send(get("/v2/models/m/infer"));
  auto reply = client.receive();
  expect_error(reply, 405);
  EXPECT_EQ(reply->field("Allow"), "POST, OPTIONS");
  client.send("DELETE /v2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc");
  reply = client.receive();
  expect_error(reply, 405);
  EXPECT_EQ(reply->field("Allow"), "GET, HEAD, OPTIONS");
  client.send("OPTIONS /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  reply = client.receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 204U);
  EXPECT_EQ(reply->field("Allow"), "GET, HEAD, OPTIONS");
  EXPECT_FALSE(reply->field("Content-Length"));
  client.send("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(status_of(client), 204U);
  client.send("GET * HTTP/1.1\r\nHost: localhost\r\n\r\n");
  expect_error(client.receive(), 400);
}

TEST(http_server, refuses_foreign_hosts_and_pages) {
  scripted_backend backend(test::echo);
  auto options = any_port();
  options.hosts = {"inference.internal"};
  http_server server(options, backend);
  const auto with_host = [&](const std::string& host) {
    return ask(server, "GET /v2 HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  };
  EXPECT_EQ(with_host("127.0.0.1:" + std::to_string(server.port())), 200U);
  EXPECT_EQ(with_host("inference.internal"), 200U);
  EXPECT_EQ(with_host("evil.example"), 403U);
  EXPECT_EQ(with_host(""), 403U);
  EXPECT_EQ(ask(server, "GET http://evil.example/v2 HTTP/1.1\r\nHost: localhost\r\n\r\n"), 403U);
  EXPECT_EQ(ask(server, get("/v2", "Origin: http://localhost\r\n")), 403U);
  EXPECT_EQ(ask(server, get("/v2", "Origin: null\r\n")), 403U);
  EXPECT_EQ(ask(server, "GET /v2 HTTP/1.0\r\n\r\n"), 200U);
  EXPECT_EQ(ask(server, "GET /v2 HTTP/1.0\r\nHost: evil.example\r\n\r\n"), 403U);
}

TEST(http_server, accepts_any_host_on_other_addresses) {
  scripted_backend backend(test::echo);
  auto options = any_port();
  options.address = "0.0.0.0";
  http_server server(options, backend);
  EXPECT_EQ(ask(server, "GET /v2 HTTP/1.1\r\nHost: a.example\r\nOrigin: http://b\r\n\r\n"), 200U);
}

TEST(http_server, closes_after_requests_that_it_does_not_understand) {
  scripted_backend backend(test::echo);
  http_server server(any_port(), backend);
  const std::string next = get("/v2/health/live");
  const std::vector<std::pair<std::string, unsigned>> cases{
      {post_head("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n", 400},
      {post_head("Content-Length: 3\r\nContent-Length: 4\r\n") + "abc", 400},
      {"GET / HTTP/1.1\nHost: localhost\n\n", 400},
      {post_head("X: a\r\n b\r\n"), 400},
      {"\r\n\r\n", 400},
      {"\x16\x03\x01\r\n\r\n", 400},
      {post_head("Content-Length: 100000000000\r\n"), 413},
      {get("/v2", "X: " + std::string(20'000, 'a') + "\r\n"), 431},
      {std::string(20'000, 'a'), 431},
      {"GET / HTTP/3.0\r\n\r\n", 505},
      {post_head("Transfer-Encoding: chunked\r\n") + "x\r\n", 400},
      {post_head("Transfer-Encoding: chunked\r\n") + "2\r\n{}\r\n0\r\n\n", 400},
      {post_head("Content-Encoding: gzip\r\nContent-Length: 5\r\n") + "abcde", 400},
  };
  for (const auto& [request, status] : cases) {
    raw_client client(server.port());
    client.send(request + next);
    const auto reply = client.receive();
    expect_error(reply, status);
    EXPECT_EQ(reply->field("Connection"), "close") << request;
    client.finish_sending();
    EXPECT_TRUE(client.is_at_end()) << request;
  }
  EXPECT_EQ(backend.submissions(), 0U);
}

TEST(http_server, keeps_the_connection_after_errors_that_it_understands) {
  scripted_backend backend(test::echo);
  backend.most_bytes = 1000;
  http_server server(any_port(), backend);
  raw_client client(server.port());
  const std::string tensor(2000, 'x');
  std::string unknown = infer(tensor);
  unknown.replace(unknown.find("/infer"), 6, "/other");
  std::string inconsistent = infer("0123456789");
  inconsistent.replace(inconsistent.find(R"("binary_data_size":10)"), 21,
                       R"("binary_data_size":11)");
  client.send(infer(tensor) + unknown + inconsistent + infer_json("{") + infer_json("") +
              infer("x"));
  for (const unsigned status : {429U, 404U, 400U, 400U}) expect_error(client.receive(), status);
  EXPECT_GE(status_of(client), 400U);
  expect_tensor(client.receive(), "x");
}

TEST(http_server, reads_no_large_body_of_a_refused_request) {
  scripted_backend backend(test::echo);
  backend.most_bytes = 1000;
  http_server server(any_port(), backend);
  raw_client client(server.port());
  const std::string request = infer(std::string(10'000'000, 'x'));
  std::thread sender([&] { client.send(request); });
  const auto reply = client.receive();
  expect_error(reply, 429);
  EXPECT_EQ(reply->field("Connection"), "close");
  sender.join();
}

TEST(http_server, decompresses_bodies) {
  scripted_backend backend(test::echo);
  auto options = any_port();
  options.limits.body_bytes = 200'000;
  http_server server(options, backend);
  for (const auto& [coding, name] :
       {std::pair(content_coding::gzip, "gzip"), std::pair(content_coding::deflate, "deflate")}) {
    const std::string tensor(100'000, 'x');
    const std::string json = json_for(tensor);
    const std::string fields =
        std::string("Content-Encoding: ") + name +
        "\r\nInference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n";
    const std::string body = test::compressed(json + tensor, coding);
    raw_client client(server.port());
    client.send(post_head(fields + "Content-Length: " + std::to_string(body.size()) + "\r\n") +
                body);
    expect_tensor(client.receive(), tensor);
    client.send(post_head(fields + "Transfer-Encoding: chunked\r\n") + test::chunked(body, 100));
    expect_tensor(client.receive(), tensor);

    const std::string bomb = test::compressed(std::string(50'000'000, ' '), coding);
    client.send(post_head(std::string("Content-Encoding: ") + name +
                          "\r\nContent-Length: " + std::to_string(bomb.size()) + "\r\n") +
                bomb);
    expect_error(client.receive(), 413);
  }
}

TEST(http_server, invites_a_body_that_waits) {
  scripted_backend backend(test::echo);
  http_server server(any_port(), backend);
  raw_client client(server.port());
  const std::string request = infer("abc", "Expect: 100-continue\r\n");
  const auto end = request.find("\r\n\r\n") + 4;
  client.send(request.substr(0, end));
  EXPECT_EQ(status_of(client), 100U);
  client.send(request.substr(end));
  expect_tensor(client.receive(), "abc");
  // A client that has sent its body needs no invitation.
  client.send(request);
  expect_tensor(client.receive(), "abc");
  // A refused request is not invited, and may end with or without its body.
  std::string refused = request.substr(0, end);
  refused.replace(refused.find("/infer"), 6, "/other");
  client.send(refused);
  const auto reply = client.receive();
  expect_error(reply, 404);
  EXPECT_EQ(reply->field("Connection"), "close");
}

TEST(http_server, speaks_http_1_0) {
  scripted_backend backend(test::echo);
  http_server server(any_port(), backend);
  raw_client client(server.port());
  client.send("GET /v2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  auto reply = client.receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->field("Connection"), "keep-alive");
  client.send("GET /v2 HTTP/1.0\r\n\r\n");
  reply = client.receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->field("Connection"), "close");
  EXPECT_TRUE(client.is_at_end());
}

TEST(http_server, closes_if_the_client_asks) {
  scripted_backend backend(test::echo);
  http_server server(any_port(), backend);
  raw_client client(server.port());
  client.send(infer("x", "Connection: close\r\n"));
  const auto reply = client.receive();
  expect_tensor(reply, "x");
  EXPECT_EQ(reply->field("Connection"), "close");
  EXPECT_TRUE(client.is_at_end());
}

TEST(http_server, slow_clients_meet_deadlines) {
  scripted_backend backend(test::echo);
  const std::string request = infer(std::string(1000, 'x'));
  {
    auto options = any_port();
    options.deadlines.idle = milliseconds(1);
    http_server server(options, backend);
    EXPECT_TRUE(raw_client(server.port()).is_at_end());
  }
  {
    auto options = any_port();
    options.deadlines.head = milliseconds(1);
    http_server server(options, backend);
    EXPECT_EQ(ask(server, "GET /v2 HT"), 408U);
  }
  {
    auto options = any_port();
    options.deadlines.body = milliseconds(1);
    http_server server(options, backend);
    EXPECT_EQ(ask(server, request.substr(0, request.size() - 1)), 408U);
    EXPECT_EQ(ask(server, post_head("Transfer-Encoding: chunked\r\n") + "5\r\n"), 408U);
  }
  {
    auto options = any_port();
    options.deadlines.grace = milliseconds(1);
    options.deadlines.least_rate = std::uint64_t{1} << 40;
    http_server server(options, backend);
    EXPECT_EQ(ask(server, request.substr(0, request.size() - 1)), 408U);
  }
  backend.wait_until_free();
}

TEST(http_server, slow_readers_are_disconnected) {
  scripted_backend backend(test::echo);
  auto options = any_port();
  options.deadlines.write = milliseconds(1);
  http_server server(options, backend);
  raw_client client(server.port(), 4096);
  client.send(infer(std::string(20'000'000, 'x')));
  backend.wait_until_free();
  EXPECT_FALSE(client.receive());
}

TEST(http_server, reads_on_while_a_client_takes_its_answer) {
  scripted_backend backend(test::echo);
  http_server server(any_port(), backend);
  raw_client client(server.port(), 4096);
  const std::string tensor(3'000'000, 'x');
  client.send(infer(tensor) + infer("y"));
  expect_tensor(client.receive(), tensor);
  expect_tensor(client.receive(), "y");
}

TEST(http_server, limits_the_text_of_replies_that_wait_for_clients) {
  scripted_backend backend(test::echo);
  auto options = any_port();
  options.limits.reply_text_bytes = 12'000'000;
  http_server server(options, backend);
  // Two bytes of text for each of the tensor: more than the buffers of the sockets take.
  const std::string large(4'000'000, '\1');
  raw_client client(server.port());
  const auto code = [&](const std::string& request) {
    client.send(request);
    return status_of(client);
  };
  const auto answered = [&] {
    return server.counts().replies[200];
  };
  for (const bool hangs_up : {false, true}) {
    const auto before = answered();
    const auto refusals = server.counts().refused_replies;
    raw_client slow(server.port(), 65'536);
    slow.send(infer_for_json(large));
    while (answered() == before) std::this_thread::yield();
    client.send(infer_for_json(large));
    const auto refused = client.receive();
    expect_error(refused, 429);
    EXPECT_EQ(refused->field("Retry-After"), "1");
    EXPECT_EQ(server.counts().refused_replies, refusals + 1);
    EXPECT_EQ(code(infer_for_json("short")), 200U);
    client.send(infer(large));
    expect_tensor(client.receive(), large);
    if (hangs_up) {
      slow.close();
    } else {
      const auto reply = slow.receive();
      ASSERT_TRUE(reply);
      EXPECT_EQ(reply->status, 200U);
      EXPECT_GT(reply->body.size(), 2 * large.size());
    }
    while (code(infer_for_json(large)) == 429) continue;
    EXPECT_EQ(code(infer_for_json("short")), 200U);
  }
  backend.wait_until_free();
}

TEST(http_server, counts_no_short_texts_of_replies) {
  scripted_backend backend(test::echo);
  auto options = any_port();
  options.limits.reply_text_bytes = 0;
  http_server server(options, backend);
  raw_client client(server.port());
  const auto code = [&](std::size_t bytes) {
    client.send(infer_for_json(std::string(bytes, '\1')));
    return status_of(client);
  };
  EXPECT_EQ(code(30'000), 200U);
  EXPECT_EQ(code(40'000), 429U);   // written by the thread of the connection
  EXPECT_EQ(code(100'000), 429U);  // by another one
  EXPECT_EQ(code(30'000), 200U);
  EXPECT_EQ(server.counts().refused_replies, 2U);
}

TEST(http_server, limits_connections) {
  scripted_backend backend(test::echo);
  auto options = any_port();
  options.limits.connections = 2;
  http_server server(options, backend);
  raw_client first(server.port());
  raw_client second(server.port());
  first.send(get("/v2"));
  second.send(get("/v2"));
  EXPECT_EQ(status_of(first), 200U);
  EXPECT_EQ(status_of(second), 200U);
  raw_client third(server.port());
  const auto reply = third.receive();
  expect_error(reply, 503);
  EXPECT_TRUE(reply->field("Retry-After"));
  EXPECT_TRUE(third.is_at_end());
  first.close();
  while (server.connections() == 2) std::this_thread::yield();
  EXPECT_EQ(ask(server, get("/v2")), 200U);
}

TEST(http_server, a_full_pipeline_is_bounded) {
  scripted_backend backend(test::hold);
  http_server server(any_port(), backend);
  raw_client client(server.port());
  client.send(infer("x"));
  auto held = backend.take_held();
  std::string requests;
  constexpr int count = 100'000;
  for (int i = 0; i < count; ++i) requests += get("/v2/health/live");
  std::thread sender([&] { client.send(requests); });
  EXPECT_EQ(ask(server, get("/v2")), 200U);
  held.done(test::echo_of(held));
  expect_tensor(client.receive(), "x");
  int answers = 0;
  while (answers < count && status_of(client) == 200) ++answers;
  EXPECT_EQ(answers, count);
  sender.join();
}

TEST(http_server, stops_after_the_requests_in_flight) {
  scripted_backend backend(test::hold);
  http_server server(any_port(), backend);
  raw_client idle(server.port());
  raw_client busy(server.port());
  idle.send(get("/v2"));
  EXPECT_EQ(status_of(idle), 200U);
  busy.send(infer("x"));
  auto held = backend.take_held();
  std::thread stopping([&] { server.stop(std::chrono::hours(1)); });
  EXPECT_TRUE(idle.is_at_end());
  held.done(test::echo_of(held));
  const auto reply = busy.receive();
  expect_tensor(reply, "x");
  EXPECT_EQ(reply->field("Connection"), "close");
  EXPECT_TRUE(busy.is_at_end());
  stopping.join();
  EXPECT_THROW(raw_client client(server.port()), std::system_error);
  server.stop(milliseconds(0));
}

TEST(http_server, stopping_without_a_delay_cancels_runs) {
  scripted_backend backend(test::hold);
  backend.answers_cancelled = false;
  test::submitted held;
  {
    http_server server(any_port(), backend);
    raw_client client(server.port());
    client.send(infer("x"));
    held = backend.take_held();
    server.stop(milliseconds(0));
    EXPECT_TRUE(client.is_at_end());
    backend.wait_until_cancelled(held.number);
  }
  held.done(test::echo_of(held));  // after the server
  backend.wait_until_free();
}

TEST(http_server, an_address_in_use_is_an_error) {
  scripted_backend backend(test::echo);
  http_server server(any_port(), backend);
  auto options = any_port();
  options.port = server.port();
  EXPECT_THROW(http_server(options, backend), std::system_error);
  options.address = "nonsense";
  EXPECT_THROW(http_server(options, backend), std::system_error);
}

TEST(http_server, clients_of_all_kinds_at_once) {
  // Results come from another thread, in any order, also after hang-ups and while the server stops.
  std::mutex mutex;
  std::vector<test::submitted> waiting;
  bool ends = false;
  scripted_backend backend([&](scripted_backend&, test::submitted request) {
    const std::scoped_lock lock(mutex);
    waiting.push_back(std::move(request));
  });
  std::thread worker([&, random = sluice::test::make_generator()]() mutable {
    while (true) {
      test::submitted request;
      {
        const std::scoped_lock lock(mutex);
        if (waiting.empty()) {
          if (ends) return;
        } else {
          std::swap(waiting[random() % waiting.size()], waiting.back());
          request = std::move(waiting.back());
          waiting.pop_back();
        }
      }
      if (request.done) {
        request.done(test::echo_of(request));
      } else {
        std::this_thread::yield();
      }
    }
  });
  auto options = any_port();
  options.threads = 3;
  {
    http_server server(options, backend);
    std::vector<std::thread> clients;
    for (int c = 0; c < 8; ++c) {
      clients.emplace_back([&, c, random = sluice::test::make_generator()]() mutable {
        for (int connection = 0; connection < 10; ++connection) {
          raw_client client(server.port());
          for (int i = 0; i < 10; ++i) {
            const std::string tensor(random() % 20'000, static_cast<char>('a' + c));
            ASSERT_TRUE(client.send(infer(tensor)));
            if (random() % 10 == 0) break;  // hangs up
            expect_tensor(client.receive(), tensor);
          }
        }
      });
    }
    for (auto& client : clients) client.join();
    raw_client last(server.port());
    for (int i = 0; i < 3; ++i) last.send(infer("x"));
  }
  {
    const std::scoped_lock lock(mutex);
    ends = true;
  }
  worker.join();
  EXPECT_EQ(backend.bytes(), 0U);
}

}  // namespace
}  // namespace sluice::service
