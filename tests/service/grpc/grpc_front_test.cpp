// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/grpc_front.hpp"

#include "service/grpc/call_status.hpp"
#include "service/grpc/config_message.hpp"
#include "service/grpc/statistics_message.hpp"
#include "tests/service/front/scripted_backend.hpp"
#include "tests/service/grpc/generic_client.hpp"
#include "tests/service/grpc/served_grpc.hpp"
#include "tests/service/grpc/wire_message.hpp"
#include "tests/support/seed.hpp"

#include <sluice/version.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

namespace sluice::service {
namespace {

using std::chrono::milliseconds;
using test::any_port;
using test::bytes;
using test::echoed;
using test::generic_client;
using test::infer;
using test::infer_method;
using test::inference_method;
using test::number;
using test::packed;
using test::scripted_backend;
using test::served;
using test::stream_method;
using test::stream_request;
using test::unary_request;

const std::string watch_method = "/grpc.health.v1.Health/Watch";
constexpr milliseconds long_time{60'000};

std::string error_in_stream(const std::string& text, const std::string& id) {
  return bytes(1, text) + bytes(2, bytes(3, id));
}

TEST(grpc_front, infers) {
  served service(test::echo);
  auto random = sluice::test::make_generator();
  for (const std::size_t size : {0U, 1U, 4'000U, 5'000U, 100'000U, 5'000'000U}) {
    std::string tensor(size, '\0');
    for (auto& c : tensor) c = static_cast<char>(random());
    unary_request request(service.client, infer_method, infer(tensor));
    EXPECT_TRUE(request.wait().ok()) << request.wait().error_message();
    EXPECT_TRUE(request.reply() == echoed(tensor)) << size;
  }
  service.backend.wait_until_free();
}

TEST(grpc_front, answers_numbers_with_numbers) {
  served service(test::echo);
  const auto shape = bytes(1, "a") + bytes(2, "INT8") + bytes(3, packed({2}));
  const auto contents = bytes(5, bytes(2, packed({-3, 4})));
  unary_request request(service.client, infer_method, bytes(1, "m") + bytes(5, shape + contents));
  EXPECT_TRUE(request.wait().ok());
  EXPECT_EQ(request.reply(), bytes(1, "m") + bytes(5, shape + contents));
}

TEST(grpc_front, answers_queries) {
  served service(test::echo);
  const auto ask = [&](const std::string& method, const std::string& message) {
    unary_request request(service.client, method, message);
    const auto status = request.wait();
    return status.ok() ? request.reply() : std::to_string(status.error_code());
  };
  EXPECT_EQ(ask(inference_method("ServerLive"), ""), number(1, 1));
  EXPECT_EQ(ask(inference_method("ServerReady"), ""), number(1, 1));
  EXPECT_EQ(ask(inference_method("ModelReady"), bytes(1, "m")), number(1, 1));
  EXPECT_EQ(ask(inference_method("ModelReady"), bytes(1, "x")), "");
  EXPECT_EQ(ask(inference_method("ModelMetadata"), bytes(1, "m")),
            bytes(1, "m") + bytes(2, "1") + bytes(3, "test"));
  EXPECT_EQ(ask(inference_method("ModelMetadata"), bytes(1, "x")), "5");  // NOT_FOUND
  EXPECT_EQ(ask(inference_method("ServerMetadata"), ""),
            bytes(1, "sluiced") + bytes(2, version) + bytes(3, "model_configuration") +
                bytes(3, "model_repository") + bytes(3, "sequence") + bytes(3, "statistics"));
  EXPECT_EQ(ask(inference_method("ModelConfig"), ""), "3");  // INVALID_ARGUMENT
  EXPECT_EQ(ask(inference_method("ModelConfig"), bytes(1, "x")), "5");
  EXPECT_EQ(ask(inference_method("ModelConfig"), bytes(1, "m") + bytes(2, "1")),
            config_message(service.backend.configuration("m", "1")));
  EXPECT_EQ(ask(inference_method("ModelStatistics"), bytes(1, "x")), "5");
  EXPECT_EQ(ask(inference_method("ModelStatistics"), ""),
            statistics_message(service.backend.status(), "m", ""));
  EXPECT_EQ(ask(inference_method("RepositoryIndex"), bytes(1, "x")), "12");
  EXPECT_EQ(ask(inference_method("RepositoryIndex"), number(2, 1)),
            bytes(1, bytes(1, "m") + bytes(2, "1") + bytes(3, "READY")));
  EXPECT_EQ(ask("/grpc.health.v1.Health/Check", ""), number(1, 1));
  EXPECT_EQ(ask("/grpc.health.v1.Health/Check", bytes(1, "inference.GRPCInferenceService")),
            number(1, 1));
  EXPECT_EQ(ask("/grpc.health.v1.Health/Check", bytes(1, "x")), "5");
  EXPECT_EQ(ask(inference_method("TraceSetting"), ""), "12");  // UNIMPLEMENTED
  EXPECT_EQ(ask("/", ""), "12");
  service.backend.is_server_ready = false;
  EXPECT_EQ(ask(inference_method("ServerReady"), ""), "");
  EXPECT_EQ(ask("/grpc.health.v1.Health/Check", ""), number(1, 2));
}

TEST(grpc_front, refuses_what_is_no_request) {
  auto options = any_port();
  options.limits.message_bytes = 10'000;
  options.limits.reply_bytes = 1'000;
  served service(test::echo, options);
  const auto code = [&](const std::string& message) {
    unary_request request(service.client, infer_method, message);
    return request.wait().error_code();
  };
  EXPECT_EQ(code("\xff"), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code(""), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code(infer(std::string(10'000, 'x'))), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(code(infer(std::string(1'000, 'x'))), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(code(infer("x", "7", test::parameter(4, "sequence_start", number(1, 1)))),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code(infer("x")), grpc::StatusCode::OK);
  stream_request empty(service.client, infer_method);
  empty.close();
  EXPECT_EQ(empty.wait().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  service.backend.wait_until_free();
}

TEST(grpc_front, passes_errors_of_the_backend_on) {
  auto status = request_status::internal;
  served service([&](scripted_backend&, test::submitted request) {
    request.done({.error = request_error(status, "gr\xc3\xbcn \xff")});
  });
  for (int i = 0; i <= static_cast<int>(request_status::deadline_exceeded); ++i) {
    status = static_cast<request_status>(i);
    unary_request request(service.client, infer_method, infer("x"));
    EXPECT_EQ(request.wait().error_code(), grpc_status(status));
    EXPECT_EQ(request.wait().error_message(), "gr\xc3\xbcn \xef\xbf\xbd");
    const bool is_retried =
        status == request_status::resource_exhausted || status == request_status::unavailable;
    EXPECT_EQ(request.trailing("grpc-retry-pushback-ms"), is_retried ? "1000" : "");
  }
  service.backend.most_bytes = 10;
  unary_request request(service.client, infer_method, infer("more than ten bytes"));
  EXPECT_EQ(request.wait().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST(grpc_front, answers_results_of_other_threads) {
  served service(test::hold);
  unary_request request(service.client, infer_method, infer("abc"));
  std::thread([&] {
    auto held = service.backend.take_held();
    EXPECT_EQ(held.run.model, "m");
    held.done(test::echo_of(held));
  }).join();
  EXPECT_TRUE(request.wait().ok());
  EXPECT_EQ(request.reply(), echoed("abc"));
}

TEST(grpc_front, cancels_runs_of_clients_that_hang_up) {
  for (const bool answers : {true, false}) {
    served service(test::hold);
    service.backend.answers_cancelled = answers;
    unary_request request(service.client, infer_method, infer("abc"));
    auto held = service.backend.take_held();
    request.cancel();
    service.backend.wait_until_cancelled(held.number);
    EXPECT_EQ(request.wait().error_code(), grpc::StatusCode::CANCELLED);
    // A result that comes too late is dropped.
    held.done(test::echo_of(held));
    service.backend.wait_until_free();
  }
}

TEST(grpc_front, takes_the_shortest_deadline) {
  served service(test::hold);
  const auto deadline_of = [&](std::optional<milliseconds> timeout, const std::string& more) {
    unary_request request(service.client, infer_method, infer("a", "7", more), timeout);
    auto held = service.backend.take_held();
    const auto deadline = held.run.deadline;
    held.done(test::echo_of(held));
    EXPECT_TRUE(request.wait().ok());
    return deadline ? std::optional(*deadline - std::chrono::steady_clock::now()) : std::nullopt;
  };
  const auto hour = test::parameter(4, "timeout", number(2, 3'600'000'000));
  EXPECT_EQ(deadline_of({}, ""), std::nullopt);
  EXPECT_GT(deadline_of({}, hour).value(), std::chrono::minutes(50));
  const auto shortest = deadline_of(long_time, hour).value();
  EXPECT_LE(shortest, 2 * long_time);  // gRPC rounds up
  EXPECT_GT(shortest, milliseconds(0));
  EXPECT_LE(deadline_of(std::chrono::hours(2), hour).value(), std::chrono::hours(1));
}

TEST(grpc_front, cancels_runs_at_the_deadline_of_the_call) {
  served service(test::hold);
  unary_request request(service.client, infer_method, infer("a"), milliseconds(100));
  const auto held = service.backend.take_held();
  service.backend.wait_until_cancelled(held.number);
  EXPECT_EQ(request.wait().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST(grpc_front, answers_a_stream_in_the_order_of_the_results) {
  served service(test::hold);
  stream_request stream(service.client, stream_method);
  std::vector<test::submitted> held;
  for (int i = 0; i < 5; ++i) {
    stream.send(infer("tensor" + std::to_string(i), std::to_string(i)));
    held.push_back(service.backend.take_held());
  }
  stream.send(bytes(3, "bad"));
  EXPECT_EQ(stream.receive(), error_in_stream("request: model_name is missing", "bad"));
  stream.close();
  for (const std::size_t i : {3U, 0U, 4U, 1U}) {
    held[i].done(test::echo_of(held[i]));
    EXPECT_EQ(stream.receive(), bytes(2, echoed("tensor" + std::to_string(i), std::to_string(i))));
  }
  held[2].done({.error = request_error(request_status::unavailable, "no worker")});
  EXPECT_EQ(stream.receive(), error_in_stream("no worker", "2"));
  EXPECT_EQ(stream.receive(), std::nullopt);
  EXPECT_TRUE(stream.wait().ok());
}

TEST(grpc_front, answers_streams_at_once_and_with_long_replies) {
  served service(test::echo);
  stream_request stream(service.client, stream_method);
  std::set<std::string> expected;
  for (int i = 0; i < 20; ++i) {
    const std::string tensor(static_cast<std::size_t>(i) * 20'000, static_cast<char>('a' + i));
    stream.send(infer(tensor, std::to_string(i)));
    expected.insert(bytes(2, echoed(tensor, std::to_string(i))));
  }
  stream.close();
  std::set<std::string> replies;
  while (auto reply = stream.receive()) replies.insert(std::move(*reply));
  EXPECT_TRUE(replies == expected);
  EXPECT_TRUE(stream.wait().ok());
}

TEST(grpc_front, reads_a_stream_only_while_few_requests_are_unanswered) {
  auto options = any_port();
  options.limits.requests_of_stream = 2;
  served service(test::hold, options);
  stream_request stream(service.client, stream_method);
  for (int i = 0; i < 4; ++i) stream.send(infer("t", std::to_string(i)));
  auto first = service.backend.take_held();
  auto second = service.backend.take_held();
  EXPECT_EQ(service.backend.submissions(), 2U);
  second.done(test::echo_of(second));
  EXPECT_EQ(stream.receive(), bytes(2, echoed("t", "1")));
  auto third = service.backend.take_held();
  EXPECT_EQ(service.backend.submissions(), 3U);
  first.done(test::echo_of(first));
  third.done(test::echo_of(third));
  auto fourth = service.backend.take_held();
  fourth.done(test::echo_of(fourth));
  stream.close();
  EXPECT_TRUE(stream.wait().ok());
}

TEST(grpc_front, cancels_a_call_whose_client_takes_no_replies) {
  auto options = any_port();
  options.deadlines.write = milliseconds(1);
  served service(test::hold, options);
  stream_request stream(service.client, stream_method, false);
  // More than the flow control of HTTP/2 lets pass without a reader.
  stream.send(infer(std::string(std::size_t{16} << 20U, 'x')));
  std::weak_ptr<const void> memory;
  {
    auto request = service.backend.take_held();
    auto result = test::echo_of(request);
    memory = result.memory;
    request.done(std::move(result));
  }
  while (!memory.expired()) std::this_thread::yield();
}

TEST(grpc_front, limits_the_bytes_of_replies_that_wait_for_clients) {
  auto options = any_port();
  options.limits.reply_bytes_in_flight = std::size_t{20} << 20U;
  served service(test::echo, options);
  const std::string quarter(std::size_t{5} << 20U, 'x');
  const auto code = [&] {
    return unary_request(service.client, infer_method, infer(quarter)).wait().error_code();
  };
  for (int i = 0; i < 5; ++i) EXPECT_EQ(code(), grpc::StatusCode::OK);  // they are given back
  {
    generic_client slow_client(service.server.port());
    stream_request slow(slow_client, stream_method, false);
    slow.send(infer(std::string(std::size_t{16} << 20U, 'x')));
    // The other replies must not leave the budget too small for this one.
    while (service.backend.submissions() < 6) std::this_thread::yield();
    while (code() == grpc::StatusCode::OK) continue;
    unary_request refused(service.client, infer_method, infer(quarter));
    EXPECT_EQ(refused.wait().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(refused.trailing("grpc-retry-pushback-ms"), "1000");
    stream_request stream(service.client, stream_method);
    stream.send(infer(quarter, "8"));
    EXPECT_EQ(
        stream.receive(),
        error_in_stream("clients have not taken their replies, which have too many bytes", "8"));
    stream.send(infer("short", "9"));
    EXPECT_EQ(stream.receive(), bytes(2, echoed("short", "9")));
  }
  while (code() != grpc::StatusCode::OK) continue;
}

TEST(grpc_front, ends_a_stream_whose_errors_have_too_many_bytes) {
  auto options = any_port();
  options.limits.reply_bytes_in_flight = 1'000;
  served service(test::hold, options);
  const auto unnamed = [](std::size_t bytes_of_id) {
    return bytes(3, std::string(bytes_of_id, 'i'));
  };
  stream_request stream(service.client, stream_method);
  for (int i = 0; i < 5; ++i) {  // each is given back
    stream.send(unnamed(400));
    EXPECT_EQ(stream.receive(),
              error_in_stream("request: model_name is missing", std::string(400, 'i')));
  }
  stream.send(infer("a", "1"));
  stream.send(infer("b", "2"));
  stream.send(infer("c", std::string(1'000, 'i')));
  stream.send(infer(std::string(1'000, 'd'), "4"));
  std::vector<test::submitted> held;
  for (int i = 0; i < 4; ++i) held.push_back(service.backend.take_held());
  // Neither the result nor the error after it.
  held[2].done(test::echo_of(held[2]));
  // No result, but its error.
  held[3].done(test::echo_of(held[3]));
  EXPECT_EQ(
      stream.receive(),
      error_in_stream("clients have not taken their replies, which have too many bytes", "4"));
  stream.send(unnamed(1'000));
  held[0].done(test::echo_of(held[0]));
  EXPECT_EQ(stream.receive(), bytes(2, echoed("a", "1")));
  held[1].done({.error = request_error(request_status::unavailable, "no worker")});
  EXPECT_EQ(stream.receive(), error_in_stream("no worker", "2"));
  EXPECT_EQ(stream.receive(), std::nullopt);
  EXPECT_EQ(stream.wait().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  held.clear();
  service.backend.wait_until_free();

  stream_request next(service.client, stream_method);
  next.send(unnamed(1'000));
  EXPECT_EQ(next.receive(), std::nullopt);
  EXPECT_EQ(next.wait().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST(grpc_front, cancels_the_runs_of_a_stream) {
  served service(test::hold);
  stream_request stream(service.client, stream_method);
  stream.send(infer("a", "1"));
  stream.send(infer("b", "2"));
  const auto first = service.backend.take_held();
  const auto second = service.backend.take_held();
  stream.cancel();
  service.backend.wait_until_cancelled(first.number);
  service.backend.wait_until_cancelled(second.number);
  EXPECT_EQ(stream.wait().error_code(), grpc::StatusCode::CANCELLED);
}

TEST(grpc_front, answers_what_is_in_flight_when_it_stops) {
  served service(test::hold);
  unary_request request(service.client, infer_method, infer("a"));
  auto unary = service.backend.take_held();
  stream_request stream(service.client, stream_method);
  stream.send(infer("b", "2"));
  auto streamed = service.backend.take_held();
  stream_request idle(service.client, stream_method);
  stream_request watch(service.client, watch_method);
  watch.send("");
  EXPECT_EQ(watch.receive(), number(1, 1));

  std::thread stop([&] { service.server.stop(long_time); });
  EXPECT_EQ(idle.wait().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(watch.wait().error_code(), grpc::StatusCode::UNAVAILABLE);
  unary.done(test::echo_of(unary));
  streamed.done(test::echo_of(streamed));
  EXPECT_TRUE(request.wait().ok());
  EXPECT_EQ(request.reply(), echoed("a"));
  EXPECT_EQ(stream.receive(), bytes(2, echoed("b", "2")));
  EXPECT_EQ(stream.wait().error_code(), grpc::StatusCode::UNAVAILABLE);
  stop.join();
  unary_request late(service.client, infer_method, infer("a"));
  EXPECT_EQ(late.wait().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(grpc_front, cancels_what_is_in_flight_after_the_delay) {
  for (const bool answers : {true, false}) {
    served service(test::hold);
    service.backend.answers_cancelled = answers;
    unary_request request(service.client, infer_method, infer("a"));
    auto unary = service.backend.take_held();
    stream_request stream(service.client, stream_method);
    stream.send(infer("b", "2"));
    auto streamed = service.backend.take_held();
    service.server.stop(milliseconds(0));
    service.backend.wait_until_cancelled(unary.number);
    service.backend.wait_until_cancelled(streamed.number);
    EXPECT_FALSE(request.wait().ok());
    EXPECT_FALSE(stream.wait().ok());
    unary.done(test::echo_of(unary));
    streamed.done(test::echo_of(streamed));
  }
}

TEST(grpc_front, tells_watchers_of_changes) {
  served service(test::echo);
  stream_request watch(service.client, watch_method);
  watch.send("");
  watch.close();
  EXPECT_EQ(watch.receive(), number(1, 1));
  service.backend.is_server_ready = false;
  service.server.check_health();
  EXPECT_EQ(watch.receive(), number(1, 2));
  service.backend.is_server_ready = true;
  service.server.check_health();
  EXPECT_EQ(watch.receive(), number(1, 1));
  stream_request unknown(service.client, watch_method);
  unknown.send(bytes(1, "x"));
  EXPECT_EQ(unknown.receive(), number(1, 3));
  stream_request malformed(service.client, watch_method);
  malformed.send("\xff");
  EXPECT_EQ(malformed.wait().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(grpc_front, cannot_listen_twice_on_a_port) {
  served service(test::echo);
  scripted_backend backend(test::echo);
  EXPECT_THROW(grpc_front({.port = service.server.port()}, backend), std::runtime_error);
}

/// Answers requests at random times from threads of its own.
class answering_threads {
 public:
  answering_threads(scripted_backend& backend, std::uint64_t seed) : backend_(backend) {
    for (std::uint64_t i = 0; i < 2; ++i) threads_.emplace_back([this, seed, i] { run(seed + i); });
  }
  ~answering_threads() {
    for (std::size_t i = 0; i < threads_.size(); ++i) backend_.hold({});
    for (auto& thread : threads_) thread.join();
  }

 private:
  void run(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    while (true) {
      auto request = backend_.take_held();
      if (!request.done) return;
      if (random() % 4 == 0) std::this_thread::yield();
      request.done(test::echo_of(request));
    }
  }

  scripted_backend& backend_;
  std::vector<std::thread> threads_{};
};

TEST(grpc_front, answers_each_call_once_whatever_happens) {
  auto random = sluice::test::make_generator();
  for (int round = 0; round < 20; ++round) {
    auto service = std::make_unique<served>(test::hold);
    service->backend.answers_cancelled = random() % 2 == 0;
    std::optional<answering_threads> answers(std::in_place, service->backend, random());
    std::vector<std::unique_ptr<unary_request>> requests;
    std::vector<std::unique_ptr<stream_request>> streams;
    std::thread stop;
    const std::size_t stop_after = random() % 40;
    const milliseconds delay(random() % 2 == 0 ? 0 : 20'000);
    for (std::size_t i = 0; i < 40; ++i) {
      if (i == stop_after) stop = std::thread([&] { service->server.stop(delay); });
      if (random() % 3 == 0) {
        streams.push_back(std::make_unique<stream_request>(service->client, stream_method));
        for (std::uint64_t k = random() % 4; k > 0; --k) streams.back()->send(infer("t"));
        if (random() % 2 == 0) streams.back()->close();
      } else {
        requests.push_back(
            std::make_unique<unary_request>(service->client, infer_method, infer("t")));
      }
      if (!requests.empty() && random() % 4 == 0) requests[random() % requests.size()]->cancel();
      if (!streams.empty() && random() % 6 == 0) streams[random() % streams.size()]->cancel();
    }
    for (auto& stream : streams) stream->close();
    for (const auto& request : requests) {
      const auto status = request->wait();
      EXPECT_EQ(request->reply(), status.ok() ? echoed("t") : "");
    }
    for (const auto& stream : streams) (void)stream->wait();
    stop.join();
    requests.clear();
    streams.clear();
    answers.reset();
    EXPECT_TRUE(service->backend.bytes() == 0);
  }
}

}  // namespace
}  // namespace sluice::service
