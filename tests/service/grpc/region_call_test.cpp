// SPDX-License-Identifier: Apache-2.0
// Tensors in shared memory over gRPC.
#include "service/grpc/region_call.hpp"

#include "service/front/tensor_regions.hpp"
#include "tests/service/front/shared_object.hpp"
#include "tests/service/front/token_file.hpp"
#include "tests/service/grpc/served_grpc.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

using grpc::StatusCode;
using test::bytes;
using test::inference_method;
using test::number;
using test::parameter;
using test::served;
using test::shared_object;
using test::unary_request;

const std::string status_method = inference_method("SystemSharedMemoryStatus");
const std::string add_method = inference_method("SystemSharedMemoryRegister");
const std::string remove_method = inference_method("SystemSharedMemoryUnregister");

grpc_options options_with(const test::tenant_file& tenants) {
  grpc_options options{.port = 0, .tenants = tenants.registry()};
  options.regions = std::make_shared<region_registry>(options.tenants);
  return options;
}

std::string registration(const std::string& name, const shared_object& object) {
  return bytes(1, name) + bytes(2, object.key()) + number(4, object.size());
}

/// The answer to a request, or the code and the text of its error.
std::string answer(served& service, const std::string& method, const std::string& message,
                   const test::metadata& fields = {}) {
  unary_request request(service.client, method, message, std::nullopt, fields);
  const auto status = request.wait();
  return status.ok() ? request.reply()
                     : std::to_string(status.error_code()) + " " + status.error_message();
}

std::string place(std::uint32_t field, const std::string& region, std::size_t size,
                  std::size_t offset) {
  return parameter(field, "shared_memory_region", bytes(3, region)) +
         (offset > 0 ? parameter(field, "shared_memory_offset", number(2, offset)) : "") +
         parameter(field, "shared_memory_byte_size", number(2, size));
}

std::string tensor(std::size_t size) {
  return bytes(1, "a") + bytes(2, "UINT8") +
         bytes(3, test::packed({static_cast<std::int64_t>(size)}));
}

/// A request whose input is the beginning of the region r, and whose output follows it.
std::string infer(std::size_t size, std::size_t room, const std::string& id = "7") {
  return bytes(1, "m") + bytes(3, id) + bytes(5, tensor(size) + place(4, "r", size, 0)) +
         bytes(6, bytes(1, "a") + place(2, "r", room, size));
}

std::string echoed(std::size_t size, const std::string& id = "7") {
  return bytes(1, "m") + bytes(3, id) + bytes(5, tensor(size) + place(4, "r", size, size)) +
         bytes(6, "");
}

std::string random_text(std::size_t size) {
  auto random = sluice::test::make_generator();
  std::string text(size, '\0');
  for (auto& c : text) c = static_cast<char>(random());
  return text;
}

TEST(region_call, has_inputs_and_outputs_in_shared_memory) {
  const test::tenant_file tenants;
  served service(test::echo, options_with(tenants));
  for (const std::size_t size : {std::size_t{1}, std::size_t{300'000}, std::size_t{80} << 20}) {
    const shared_object object(2 * size);
    const auto text = random_text(size);
    object.write(0, text);
    ASSERT_EQ(answer(service, add_method, registration("r", object)), "");
    EXPECT_EQ(answer(service, test::infer_method, infer(size, size)), echoed(size));
    EXPECT_TRUE(object.read(size, size) == text);
    EXPECT_EQ(answer(service, test::infer_method, infer(size, size - 1)),
              "8 output \"a\": has " + std::to_string(size) +
                  " bytes, but shared_memory_byte_size is " + std::to_string(size - 1));
    ASSERT_EQ(answer(service, remove_method, bytes(1, "r")), "");
  }
  service.backend.wait_until_free();
}

TEST(region_call, answers_the_status) {
  const test::tenant_file tenants;
  served service(test::echo, options_with(tenants));
  EXPECT_NE(answer(service, inference_method("ServerMetadata"), "").find("system_shared_memory"),
            std::string::npos);
  EXPECT_EQ(answer(service, status_method, ""), "");
  const shared_object object(8);
  ASSERT_EQ(answer(service, add_method, registration("r", object)), "");
  ASSERT_EQ(answer(service, add_method, registration("s", object)), "");
  const auto entry = [&](const std::string& name) {
    return bytes(1,
                 bytes(1, name) + bytes(2, bytes(1, name) + bytes(2, object.key()) + number(4, 8)));
  };
  EXPECT_EQ(answer(service, status_method, ""), entry("r") + entry("s"));
  EXPECT_EQ(answer(service, status_method, bytes(1, "s")), entry("s"));
  EXPECT_EQ(answer(service, status_method, bytes(1, "t")),
            "5 shared memory region \"t\": it is not registered");
  EXPECT_TRUE(answer(service, add_method, registration("r", object)).starts_with("3 "));
  EXPECT_TRUE(answer(service, add_method, registration("", object)).starts_with("3 "));
  EXPECT_EQ(answer(service, remove_method, bytes(1, "t")), "");
  EXPECT_EQ(answer(service, remove_method, ""), "");
  EXPECT_EQ(answer(service, status_method, ""), "");
  EXPECT_TRUE(answer(service, inference_method("CudaSharedMemoryStatus"), "").starts_with("12 "));
  EXPECT_TRUE(answer(service, test::infer_method, infer(8, 8)).starts_with("3 "));
}

TEST(region_call, is_not_served_without_a_permission) {
  served service(test::echo);
  const shared_object object(8);
  EXPECT_EQ(answer(service, inference_method("ServerMetadata"), "").find("shared_memory"),
            std::string::npos);
  EXPECT_TRUE(answer(service, status_method, "").starts_with("12 "));
  EXPECT_TRUE(answer(service, add_method, registration("r", object)).starts_with("12 "));
  EXPECT_TRUE(answer(service, test::infer_method, infer(4, 4)).starts_with("12 "));
}

TEST(region_call, is_of_a_tenant) {
  const test::tenant_file tenants;
  const test::token_file tokens;
  auto options = options_with(tenants);
  options.access = tokens.policy();
  served service(test::echo, options);
  const shared_object object(16);
  const auto alice = test::token("alice-token");
  const auto root = test::token("root-token");
  EXPECT_TRUE(answer(service, add_method, registration("r", object)).starts_with("16 "));
  EXPECT_TRUE(answer(service, add_method, registration("r", object), root).starts_with("7 "));
  ASSERT_EQ(answer(service, add_method, registration("r", object), alice), "");
  EXPECT_EQ(answer(service, status_method, "", root), "");
  EXPECT_EQ(answer(service, remove_method, "", root), "");
  EXPECT_TRUE(answer(service, test::infer_method, infer(8, 8), root).starts_with("3 "));
  EXPECT_EQ(answer(service, test::infer_method, infer(8, 8), alice), echoed(8));
}

TEST(region_call, that_is_truncated_in_flight_is_an_error) {
  const test::tenant_file tenants;
  served service(test::hold, options_with(tenants));
  const std::string truncated = "3 shared memory region \"r\": its object has been truncated";
  for (const std::size_t size : {std::size_t{5000}, std::size_t{1} << 20}) {
    const shared_object object(2 * size);
    ASSERT_EQ(answer(service, add_method, registration("r", object)), "");
    unary_request request(service.client, test::infer_method, infer(size, size));
    auto held = service.backend.take_held();
    object.resize(size + 1);
    held.done(test::echo_of(held));
    EXPECT_EQ(std::to_string(request.wait().error_code()) + " " + request.wait().error_message(),
              truncated);
    object.resize(size - 1);
    EXPECT_EQ(answer(service, test::infer_method, infer(size, size)), truncated);
    ASSERT_EQ(answer(service, remove_method, ""), "");
  }
  service.backend.wait_until_free();
}

TEST(region_call, keeps_the_order_of_a_stream) {
  const test::tenant_file tenants;
  std::vector<std::size_t> sizes;
  served service(
      [&](test::scripted_backend& backend, test::submitted request) {
        sizes.push_back(request.inputs->tensor(0).size());
        test::echo(backend, std::move(request));
      },
      options_with(tenants));
  const shared_object object(std::size_t{16} << 20);
  ASSERT_EQ(answer(service, add_method, registration("r", object)), "");
  std::vector<std::size_t> expected;
  {
    test::stream_request stream(service.client, test::stream_method);
    auto random = sluice::test::make_generator();
    for (std::size_t i = 0; i < 40; ++i) {
      const std::size_t size = random() % 2 == 0 ? 1 + i : (std::size_t{1} << 20) + i;
      expected.push_back(size);
      stream.send(infer(size, size, std::to_string(i)));
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto reply = stream.receive();
      ASSERT_TRUE(reply);
      EXPECT_EQ(reply->find("error"), std::string::npos);
    }
    // An error of a long copy is an answer too, and the stream goes on.
    object.resize(1000);
    stream.send(infer(std::size_t{1} << 20, 1, "x"));
    stream.send(infer(10, 10, "y"));
    const auto first = stream.receive();
    const auto second = stream.receive();
    ASSERT_TRUE(first && second);
    EXPECT_NE(first->find("truncated"), std::string::npos);
    EXPECT_EQ(*second, bytes(2, echoed(10, "y")));
    stream.close();
    EXPECT_TRUE(stream.wait().ok());
  }
  expected.push_back(10);
  EXPECT_EQ(sizes, expected);
}

TEST(region_call, is_let_go_by_clients_that_hang_up) {
  const test::tenant_file tenants;
  served service(test::echo, options_with(tenants));
  const shared_object object(std::size_t{64} << 20);
  ASSERT_EQ(answer(service, add_method, registration("r", object)), "");
  constexpr std::size_t size = std::size_t{32} << 20;
  for (int round = 0; round < 10; ++round) {
    unary_request request(service.client, test::infer_method, infer(size, size));
    test::stream_request stream(service.client, test::stream_method);
    stream.send(infer(size, size));
    if (round % 2 == 0) std::this_thread::yield();
    request.cancel();
    stream.cancel();
  }
  EXPECT_EQ(answer(service, test::infer_method, infer(size, size)), echoed(size));
  service.backend.wait_until_free();
}

TEST(region_call, may_be_copied_when_the_server_stops) {
  const test::tenant_file tenants;
  const shared_object object(std::size_t{64} << 20);
  constexpr std::size_t size = std::size_t{32} << 20;
  for (int round = 0; round < 6; ++round) {
    served service(test::echo, options_with(tenants));
    ASSERT_EQ(answer(service, add_method, registration("r", object)), "");
    unary_request request(service.client, test::infer_method, infer(size, size));
    test::stream_request stream(service.client, test::stream_method);
    stream.send(infer(size, size));
    service.server.stop(std::chrono::milliseconds(round % 2 == 0 ? 0 : 60'000));
    const auto status = request.wait();
    EXPECT_TRUE(status.ok() || status.error_code() == StatusCode::CANCELLED ||
                status.error_code() == StatusCode::UNAVAILABLE)
        << status.error_message();
    EXPECT_EQ(service.backend.bytes(), 0U);
  }
}

}  // namespace
}  // namespace sluice::service
