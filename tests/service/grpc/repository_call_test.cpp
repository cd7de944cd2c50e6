// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/repository_call.hpp"

#include "tests/service/front/token_file.hpp"
#include "tests/service/grpc/served_grpc.hpp"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace sluice::service {
namespace {

using grpc::StatusCode;
using test::bytes;
using test::inference_method;
using test::number;
using test::parameter;
using test::served;
using test::token;
using test::unary_request;

const std::string load_method = inference_method("RepositoryModelLoad");
const std::string unload_method = inference_method("RepositoryModelUnload");

/// Keeps the answer of a request to load or unload a model.
class held_request {
 public:
  void operator()(std::string model, load_answer done) {
    const std::scoped_lock lock(mutex_);
    model_ = std::move(model);
    done_ = std::move(done);
    changed_.notify_all();
  }
  std::pair<std::string, load_answer> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_ != nullptr; });
    return {std::exchange(model_, {}), std::exchange(done_, nullptr)};
  }

 private:
  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::string model_{};
  load_answer done_{};
};

/// A server with tokens, whose backend keeps requests to load and unload models.
struct held_service {
  held_service() {
    const auto hold = [this](std::string model, load_answer done) {
      held(std::move(model), std::move(done));
    };
    service.backend.on_load = hold;
    service.backend.on_unload = hold;
  }

  const test::token_file file{};
  held_request held{};
  served service{test::echo, {.port = 0, .access = file.policy()}};
};

TEST(repository_call, loads_and_unloads) {
  held_service held;
  for (const auto& method : {load_method, unload_method}) {
    unary_request request(held.service.client, method, bytes(2, "m"), {}, token("root-token"));
    std::thread([&] {
      auto [model, done] = held.held.take();
      EXPECT_EQ(model, "m");
      done(std::nullopt);
    }).join();
    EXPECT_TRUE(request.wait().ok());
    EXPECT_EQ(request.reply(), "");
  }
}

TEST(repository_call, passes_errors_of_the_backend_on) {
  held_service held;
  for (const auto& method : {load_method, unload_method}) {
    unary_request request(held.service.client, method, bytes(2, "x"), {}, token("root-token"));
    held.held.take().second(request_error(request_status::not_found, "there is no model \"x\""));
    EXPECT_EQ(request.wait().error_code(), StatusCode::NOT_FOUND);
    EXPECT_EQ(request.wait().error_message(), "there is no model \"x\"");
  }
  held.service.backend.on_load = [](const auto&, const auto&) {
    throw request_error(request_status::unavailable, "no");
  };
  unary_request request(held.service.client, load_method, bytes(2, "m"), {}, token("root-token"));
  EXPECT_EQ(request.wait().error_code(), StatusCode::UNAVAILABLE);
}

TEST(repository_call, refuses_what_is_not_supported) {
  const test::token_file file;
  served service(test::echo, {.port = 0, .access = file.policy()});
  const auto code = [&](const std::string& method, const std::string& message) {
    unary_request request(service.client, method, message, {}, token("root-token"));
    return request.wait().error_code();
  };
  const auto text = bytes(3, "{}");
  for (const auto& [message, expected] : std::initializer_list<std::pair<std::string, StatusCode>>{
           {bytes(2, "m"), StatusCode::OK},
           {"", StatusCode::INVALID_ARGUMENT},
           {"\xff", StatusCode::INVALID_ARGUMENT},
           {bytes(1, "repository") + bytes(2, "m"), StatusCode::UNIMPLEMENTED},
           {bytes(2, "m") + parameter(3, "config", text), StatusCode::UNIMPLEMENTED},
           {bytes(2, "m") + parameter(3, "file:1/model.onnx", bytes(4, "x")),
            StatusCode::UNIMPLEMENTED},
           {bytes(2, "m") + parameter(3, "other", text), StatusCode::INVALID_ARGUMENT},
           {bytes(2, "m") + bytes(3, "\xff"), StatusCode::INVALID_ARGUMENT}}) {
    EXPECT_EQ(code(load_method, message), expected);
  }
  for (const auto& [message, expected] : std::initializer_list<std::pair<std::string, StatusCode>>{
           {bytes(2, "m") + parameter(3, "unload_dependents", number(1, 1)), StatusCode::OK},
           {bytes(2, "m") + parameter(3, "unload_dependents", number(1, 0)), StatusCode::OK},
           {bytes(2, "m") + parameter(3, "unload_dependents", text), StatusCode::INVALID_ARGUMENT},
           {bytes(2, "m") + parameter(3, "config", text), StatusCode::INVALID_ARGUMENT},
           {"", StatusCode::INVALID_ARGUMENT}}) {
    EXPECT_EQ(code(unload_method, message), expected);
  }
}

TEST(repository_call, leaves_a_load_alone_whose_client_hangs_up) {
  held_service held;
  unary_request request(held.service.client, load_method, bytes(2, "m"), {}, token("root-token"));
  const auto done = held.held.take().second;
  request.cancel();
  EXPECT_EQ(request.wait().error_code(), StatusCode::CANCELLED);
  done(std::nullopt);
  unary_request live(held.service.client, inference_method("ServerLive"), "");
  EXPECT_TRUE(live.wait().ok());
}

TEST(repository_call, does_not_keep_a_server_from_its_end) {
  load_answer done;
  {
    held_service held;
    unary_request request(held.service.client, load_method, bytes(2, "m"), {}, token("root-token"));
    done = held.held.take().second;
    held.service.server.stop(std::chrono::milliseconds(0));
    EXPECT_FALSE(request.wait().ok());
  }
  done(std::nullopt);
}

}  // namespace
}  // namespace sluice::service
