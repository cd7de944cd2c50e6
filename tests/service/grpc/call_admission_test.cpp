// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/call_admission.hpp"

#include "tests/service/front/token_file.hpp"
#include "tests/service/grpc/served_grpc.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

using grpc::StatusCode;
using test::bytes;
using test::infer;
using test::infer_method;
using test::inference_method;
using test::served;
using test::stream_method;
using test::stream_request;
using test::token;
using test::unary_request;

StatusCode code_of(served& service, const std::string& method, const std::string& message,
                   const test::metadata& fields = {}) {
  unary_request request(service.client, method, message, {}, fields);
  return request.wait().error_code();
}

TEST(call_admission, names_loopback_peers) {
  for (const auto* const peer : {"ipv4:127.0.0.1:50000", "ipv4:127.8.9.1:1", "ipv6:[::1]:50000",
                                 "ipv6:%5B::1%5D:50000", "ipv6:[::ffff:127.0.0.1]:1"}) {
    EXPECT_TRUE(is_loopback_peer(peer)) << peer;
  }
  for (const auto* const peer :
       {"ipv4:128.0.0.1:50000", "ipv4:10.127.0.1:1", "ipv6:[::2]:50000", "ipv6:%5Bfe80::1%5D:1",
        "unix:/tmp/127.0.0.1:1", "unix:127.0.0.1:1", "127.0.0.1:1", "ipv4:", "ipv6:[]:", "", ":",
        "ipv4:127.0.0.1.example.org:1"}) {
    EXPECT_FALSE(is_loopback_peer(peer)) << peer;
  }
}

TEST(call_admission, asks_for_the_role_of_the_method) {
  const test::token_file file;
  served service(test::echo, {.port = 0, .access = file.policy()});
  struct row {
    std::string method;
    std::string message;
    StatusCode nobody, infer;
  };
  const auto model = bytes(1, "m");
  const auto ok = StatusCode::OK;
  const auto unauthenticated = StatusCode::UNAUTHENTICATED;
  const auto denied = StatusCode::PERMISSION_DENIED;
  for (const auto& [method, message, nobody, with_infer] : std::initializer_list<row>{
           {inference_method("ServerLive"), "", ok, ok},
           {inference_method("ServerReady"), "", ok, ok},
           {"/grpc.health.v1.Health/Check", "", ok, ok},
           {inference_method("ServerMetadata"), "", unauthenticated, ok},
           {inference_method("ModelReady"), model, unauthenticated, ok},
           {inference_method("ModelMetadata"), model, unauthenticated, ok},
           {inference_method("ModelConfig"), model, unauthenticated, ok},
           {inference_method("ModelStatistics"), model, unauthenticated, ok},
           {inference_method("RepositoryIndex"), "", unauthenticated, ok},
           {infer_method, infer("x"), unauthenticated, ok},
           {inference_method("RepositoryModelLoad"), bytes(2, "m"), unauthenticated, denied},
           {inference_method("RepositoryModelUnload"), bytes(2, "m"), unauthenticated, denied},
           {inference_method("Other"), "", StatusCode::UNIMPLEMENTED, StatusCode::UNIMPLEMENTED}}) {
    EXPECT_EQ(code_of(service, method, message), nobody) << method;
    EXPECT_EQ(code_of(service, method, message, token("alice-token")), with_infer) << method;
    const auto with_admin = with_infer == denied ? ok : with_infer;
    EXPECT_EQ(code_of(service, method, message, token("root-token")), with_admin) << method;
    EXPECT_EQ(code_of(service, method, message, token("alice-tokem")), nobody) << method;
  }
  EXPECT_EQ(code_of(service, infer_method, infer("x"), {{"authorization", "alice-token"}}),
            unauthenticated);
  auto twice = token("alice-token");
  twice.push_back(twice.front());
  EXPECT_EQ(code_of(service, infer_method, infer("x"), twice), unauthenticated);
}

TEST(call_admission, lets_nobody_load_models_without_a_token_file) {
  served service(test::echo);
  EXPECT_EQ(code_of(service, infer_method, infer("x")), StatusCode::OK);
  EXPECT_EQ(code_of(service, inference_method("RepositoryModelLoad"), bytes(2, "m")),
            StatusCode::PERMISSION_DENIED);
}

TEST(call_admission, refuses_calls_before_it_reads_their_message) {
  const test::token_file file;
  served service(test::echo, {.port = 0, .access = file.policy()});
  for (const auto& method : {infer_method, stream_method, inference_method("ModelConfig"),
                             inference_method("RepositoryModelLoad")}) {
    stream_request silent(service.client, method);
    EXPECT_EQ(silent.wait().error_code(), StatusCode::UNAUTHENTICATED) << method;
  }
  EXPECT_EQ(code_of(service, infer_method, "\xff"), StatusCode::UNAUTHENTICATED);
}

TEST(call_admission, gives_runs_their_tenant) {
  const test::token_file file;
  served service(test::hold, {.port = 0, .access = file.policy()});
  for (const std::string name : {"alice", "root"}) {
    unary_request request(service.client, infer_method, infer("x"), {}, token(name + "-token"));
    auto held = service.backend.take_held();
    EXPECT_EQ(held.run.tenant, name);
    held.done(test::echo_of(held));
    EXPECT_TRUE(request.wait().ok());
    stream_request stream(service.client, stream_method, true, token(name + "-token"));
    stream.send(infer("x"));
    held = service.backend.take_held();
    EXPECT_EQ(held.run.tenant, name);
    held.done(test::echo_of(held));
    EXPECT_TRUE(stream.receive());
  }
}

TEST(call_admission, gives_runs_their_trace) {
  served service(test::hold);
  const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736";
  const std::string field = "00-" + trace + "-00f067aa0ba902b7-01";
  for (const auto& [text, expected] :
       std::vector<std::pair<std::string, std::string>>{{field, trace}, {field + "-x", ""}}) {
    unary_request request(service.client, infer_method, infer("x"), {}, {{"traceparent", text}});
    auto held = service.backend.take_held();
    EXPECT_EQ(held.run.trace.value_or(trace_context{}).trace, expected);
    held.done(test::echo_of(held));
    EXPECT_TRUE(request.wait().ok());
  }
}

TEST(call_admission, limits_the_requests_of_a_tenant) {
  const sluice::test::temporary_folder folder;
  std::ofstream(folder / "tenants.toml") << "[anonymous]\nrequests = 1\nrequest_bytes = 3\n";
  served service(
      test::hold,
      {.port = 0,
       .tenants = std::make_shared<tenant_registry>((folder / "tenants.toml").string())});
  EXPECT_EQ(code_of(service, infer_method, infer("four")), StatusCode::RESOURCE_EXHAUSTED);
  {
    unary_request first(service.client, infer_method, infer("x"));
    auto held = service.backend.take_held();
    EXPECT_EQ(code_of(service, infer_method, infer("y")), StatusCode::RESOURCE_EXHAUSTED);
    held.done(test::echo_of(held));
    EXPECT_TRUE(first.wait().ok());
  }
  unary_request second(service.client, infer_method, infer("x"));
  auto held = service.backend.take_held();
  held.done(test::echo_of(held));
  EXPECT_TRUE(second.wait().ok());
}

TEST(call_admission, ends_a_stream_whose_token_is_gone) {
  const test::token_file file;
  const auto policy = file.policy();
  served service(test::hold, {.port = 0, .access = policy});
  stream_request stream(service.client, stream_method, true, token("alice-token"));
  stream.send(infer("x", "1"));
  auto held = service.backend.take_held();
  file.write("bob infer " + test::sha256_of("bob-token") + "\n");
  policy->reload();
  stream.send(infer("y", "2"));
  held.done(test::echo_of(held));
  EXPECT_EQ(stream.receive(), bytes(2, test::echoed("x", "1")));
  EXPECT_EQ(stream.receive(), std::nullopt);
  EXPECT_EQ(stream.wait().error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(service.backend.submissions(), 1U);
}

}  // namespace
}  // namespace sluice::service
