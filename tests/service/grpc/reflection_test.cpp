// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/reflection_message.hpp"
#include "tests/service/grpc/served_grpc.hpp"
#include "tests/service/grpc/wire_message.hpp"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>

namespace sluice::service {
namespace {

namespace pb = google::protobuf;
using test::any_port;
using test::bytes;
using test::number;
using test::served;
using test::stream_request;
using test::unary_request;

const std::string inference_service = "inference.GRPCInferenceService";
const std::string info_v1 = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const std::string info_v1alpha = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

std::string answer(const std::string& request) {
  return reflection_message(wire_reader(std::as_bytes(std::span(request))));
}

/// The start of a reply: the request and its host.
std::string repeated(const std::string& request, const std::string& host = "") {
  return (host.empty() ? "" : bytes(1, host)) + bytes(2, request);
}

/// The file in a reply, or nothing.
std::optional<pb::FileDescriptorProto> file_in(const std::string& reply) {
  wire_reader reader(std::as_bytes(std::span(reply)));
  while (reader.next()) {
    if (!reader.is(4, wire_type::bytes)) {
      reader.skip();
      continue;
    }
    auto files = reader.bytes();
    if (!files.next() || !files.is(1, wire_type::bytes)) return std::nullopt;
    auto content = files.bytes();
    std::string text(content.size(), '\0');
    content.copy(std::as_writable_bytes(std::span(text)));
    pb::FileDescriptorProto file;
    if (!file.ParseFromString(text) || files.next()) return std::nullopt;
    return file;
  }
  return std::nullopt;
}

TEST(reflection, lists_the_services) {
  const auto request = bytes(1, "localhost") + bytes(7, "*");
  EXPECT_EQ(answer(request),
            repeated(request, "localhost") + bytes(6, bytes(1, bytes(1, "grpc.health.v1.Health")) +
                                                          bytes(1, bytes(1, inference_service))));
}

TEST(reflection, finds_files_by_name_and_symbol) {
  for (const auto& [field, name, expected] : {
           std::tuple<std::uint32_t, std::string, std::string>{3, "grpc/health/v1/health.proto",
                                                               "grpc/health/v1/health.proto"},
           {3, "open_inference.proto", "open_inference.proto"},
           {4, inference_service, "open_inference.proto"},
           {4, inference_service + ".ModelInfer", "open_inference.proto"},
           {4, "inference.ModelInferRequest.InferInputTensor", "open_inference.proto"},
           {4, "grpc.health.v1.HealthCheckResponse.ServingStatus", "grpc/health/v1/health.proto"},
       }) {
    const auto file = file_in(answer(bytes(field, name)));
    ASSERT_TRUE(file) << name;
    EXPECT_EQ(file->name(), expected);
    // A client builds its types from what it gets, without another file.
    pb::DescriptorPool pool;
    EXPECT_NE(pool.BuildFile(*file), nullptr) << name;
  }
}

TEST(reflection, answers_what_is_missing_with_an_error) {
  const auto code_in = [](const std::string& reply) -> std::uint64_t {
    wire_reader reader(std::as_bytes(std::span(reply)));
    while (reader.next()) {
      if (!reader.is(7, wire_type::bytes)) {
        reader.skip();
        continue;
      }
      auto error = reader.bytes();
      return error.next() && error.is(1, wire_type::varint) ? error.varint() : 0;
    }
    return 0;
  };
  EXPECT_EQ(code_in(answer(bytes(3, "../open_inference.proto"))), 5U);  // NOT_FOUND
  EXPECT_EQ(code_in(answer(bytes(4, "inference.Nothing"))), 5U);
  EXPECT_EQ(code_in(answer(bytes(4, ""))), 5U);
  EXPECT_EQ(code_in(answer(bytes(5, bytes(1, "inference.ModelInferRequest") + number(2, 7)))), 5U);
  EXPECT_EQ(code_in(answer(bytes(6, "inference.Nothing"))), 5U);
  EXPECT_EQ(code_in(answer("")), 3U);  // INVALID_ARGUMENT
  // No message has extensions.
  const auto request = bytes(6, "inference.ModelInferRequest");
  EXPECT_EQ(answer(request), repeated(request) + bytes(5, bytes(1, "inference.ModelInferRequest")));
}

TEST(reflection, refuses_a_malformed_and_a_long_request) {
  EXPECT_THROW((void)answer("\x22\x7f"), request_error);
  EXPECT_THROW((void)answer(bytes(5, "\x0a\x05")), request_error);
  EXPECT_THROW((void)answer(bytes(4, std::string(1U << 17U, 'a'))), request_error);
}

TEST(reflection, is_a_stream_of_both_versions) {
  served service(test::echo);
  for (const auto& method : {info_v1, info_v1alpha}) {
    stream_request call(service.client, method);
    for (const auto& request : {bytes(7, ""), bytes(4, inference_service), bytes(3, "none")}) {
      call.send(request);
      EXPECT_EQ(call.receive(), answer(request));
    }
    call.close();
    EXPECT_TRUE(call.wait().ok()) << call.wait().error_message();
    stream_request malformed(service.client, method);
    malformed.send("\x22\x7f");
    EXPECT_EQ(malformed.wait().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
}

TEST(reflection, describes_the_methods_that_are_served) {
  served service(test::echo);
  for (const auto& symbol : {inference_service, std::string("grpc.health.v1.Health")}) {
    const auto file = file_in(answer(bytes(4, symbol)));
    ASSERT_TRUE(file);
    ASSERT_EQ(file->service_size(), 1);
    EXPECT_GT(file->service(0).method_size(), 1);
    for (const auto& method : file->service(0).method()) {
      if (method.client_streaming() || method.server_streaming()) continue;
      unary_request request(service.client, "/" + symbol + "/" + method.name(), "");
      const auto text = request.wait().error_message();
      EXPECT_EQ(text.find("is not served"), std::string::npos) << text;
    }
  }
}

TEST(reflection, needs_a_loopback_address) {
  auto options = any_port();
  options.address = "0.0.0.0";
  served service(test::echo, options);
  stream_request call(service.client, info_v1);
  EXPECT_EQ(call.wait().error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace sluice::service
