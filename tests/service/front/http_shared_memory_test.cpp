// SPDX-License-Identifier: Apache-2.0
// Tensors in shared memory over HTTP.
#include "service/front/http_server.hpp"
#include "service/front/tensor_regions.hpp"
#include "tests/service/front/raw_client.hpp"
#include "tests/service/front/scripted_backend.hpp"
#include "tests/service/front/shared_object.hpp"
#include "tests/service/front/token_file.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

namespace sluice::service {
namespace {

using test::raw_client;
using test::scripted_backend;
using test::shared_object;

constexpr const char* registration = "/v2/systemsharedmemory/region/";

http_options options_with(const test::tenant_file& tenants) {
  http_options options{.port = 0, .tenants = tenants.registry()};
  options.regions = std::make_shared<region_registry>(options.tenants);
  return options;
}

/// A client of a server, with the fields of its requests.
class shared_memory_client {
 public:
  explicit shared_memory_client(const http_server& server, std::string fields = "")
      : client_(server.port()), fields_(std::move(fields)) {}

  void send(const std::string& path, const std::string& body) const {
    client_.send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields_ +
                 "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  /// The status and the body of the next reply.
  std::string receive() {
    const auto reply = client_.receive();
    return reply ? std::to_string(reply->status) + " " + reply->body : "nothing";
  }
  std::string post(const std::string& path, const std::string& body = "") {
    send(path, body);
    return receive();
  }
  std::string get(const std::string& path) {
    client_.send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields_ + "\r\n");
    return receive();
  }
  std::string add(const std::string& name, const shared_object& object) {
    return post(registration + name + "/register", R"({"key":")" + object.key() +
                                                       R"(","offset":0,"byte_size":)" +
                                                       std::to_string(object.size()) + "}");
  }
  [[nodiscard]] raw_client& connection() noexcept { return client_; }

 private:
  raw_client client_;
  std::string fields_;
};

std::string place(const std::string& region, std::size_t offset, std::size_t bytes) {
  return R"("parameters":{"shared_memory_region":")" + region + R"(","shared_memory_offset":)" +
         std::to_string(offset) + R"(,"shared_memory_byte_size":)" + std::to_string(bytes) + "}";
}

/// An input of bytes in shared memory.
std::string input(const std::string& name, const std::string& region, std::size_t offset,
                  std::size_t bytes) {
  return R"({"name":")" + name + R"(","datatype":"UINT8","shape":[)" + std::to_string(bytes) +
         "]," + place(region, offset, bytes) + "}";
}

std::string output(const std::string& name, const std::string& region, std::size_t offset,
                   std::size_t bytes) {
  return R"({"name":")" + name + R"(",)" + place(region, offset, bytes) + "}";
}

std::string infer_text(const std::string& inputs, const std::string& outputs) {
  return R"({"inputs":[)" + inputs + R"(],"outputs":[)" + outputs + "]}";
}

std::string random_text(std::size_t bytes) {
  auto random = sluice::test::make_generator();
  std::string text(bytes, '\0');
  for (auto& c : text) c = static_cast<char>(random());
  return text;
}

const std::string infer_path = "/v2/models/m/infer";

TEST(http_shared_memory, has_inputs_and_outputs) {
  const test::tenant_file tenants;
  scripted_backend backend(test::echo);
  http_server server(options_with(tenants), backend);
  shared_memory_client client(server);
  auto random = sluice::test::make_generator();
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, random() % 10'000,
                                  (std::size_t{4} << 20) + random() % 1000}) {
    const std::size_t gap = random() % 5000;
    const shared_object object(2 * bytes + gap + 1);
    const auto text = random_text(bytes);
    object.write(gap, text);
    ASSERT_EQ(client.add("r", object), "200 {}");
    EXPECT_EQ(
        client.post(infer_path, infer_text(input("a", "r", gap, bytes),
                                           output("a", "r", gap + bytes, bytes + 1))),
        R"(200 {"model_name":"m","model_version":"","outputs":[{"name":"a",)"
        R"("datatype":"UINT8","shape":[)" +
            std::to_string(bytes) + R"(],"parameters":{"shared_memory_region":"r",)" +
            (gap + bytes > 0 ? R"("shared_memory_offset":)" + std::to_string(gap + bytes) + ","
                             : "") +
            R"("shared_memory_byte_size":)" + std::to_string(bytes) + "}}]}");
    EXPECT_EQ(object.read(gap + bytes, bytes), text);
    EXPECT_EQ(object.read(gap + 2 * bytes, 1), std::string(1, '\0'));
    EXPECT_EQ(client.post(registration + std::string("r/unregister")), "200 {}");
  }
  backend.wait_until_free();
}

TEST(http_shared_memory, is_mixed_with_other_tensors) {
  const test::tenant_file tenants;
  scripted_backend backend(test::echo);
  http_server server(options_with(tenants), backend);
  shared_memory_client client(server);
  const shared_object object(10);
  object.write(0, "hello");
  ASSERT_EQ(client.add("r", object), "200 {}");
  const auto json = infer_text(
      R"({"name":"b","datatype":"UINT8","shape":[3],"parameters":{"binary_data_size":3}},)" +
          input("a", "r", 0, 5) + R"(,{"name":"j","datatype":"UINT8","shape":[2],"data":[7,8]})",
      R"({"name":"b","parameters":{"binary_data":true}},{"name":"a","parameters":{"binary_data":)"
      R"(true}},)" +
          output("j", "r", 6, 2));
  client.connection().send("POST " + infer_path + " HTTP/1.1\r\nHost: localhost\r\n" +
                           "Content-Length: " + std::to_string(json.size() + 3) +
                           "\r\nInference-Header-Content-Length: " + std::to_string(json.size()) +
                           "\r\n\r\n" + json + "xyz");
  const auto reply = client.receive();
  EXPECT_TRUE(reply.starts_with("200 ")) << reply;
  EXPECT_TRUE(reply.ends_with("}xyzhello")) << reply;
  EXPECT_EQ(object.read(6, 2), "\x07\x08");
}

TEST(http_shared_memory, has_a_status) {
  const test::tenant_file tenants;
  scripted_backend backend(test::echo);
  http_server server(options_with(tenants), backend);
  shared_memory_client client(server);
  EXPECT_NE(client.get("/v2").find(R"("system_shared_memory"])"), std::string::npos);
  EXPECT_EQ(client.get("/v2/systemsharedmemory/status"), "200 []");
  const shared_object object(8);
  ASSERT_EQ(client.add("b%20%2F", object), "200 {}");
  ASSERT_EQ(client.add("a", object), "200 {}");
  const std::string rest = R"(","key":")" + object.key() + R"(","offset":0,"byte_size":8})";
  EXPECT_EQ(client.get("/v2/systemsharedmemory/status"),
            R"(200 [{"name":"a)" + rest + R"(,{"name":"b /)" + rest + "]");
  EXPECT_EQ(client.get(registration + std::string("b%20%2F/status")),
            R"(200 [{"name":"b /)" + rest + "]");
  EXPECT_EQ(client.get(registration + std::string("c/status")),
            R"(404 {"error":"shared memory region \"c\": it is not registered"})");
  EXPECT_TRUE(client.add("a", object).starts_with("400 "));
  EXPECT_EQ(client.post(registration + std::string("c/unregister")), "200 {}");
  EXPECT_EQ(client.post(registration + std::string("a/unregister")), "200 {}");
  EXPECT_TRUE(client.get(registration + std::string("a/status")).starts_with("404 "));
  EXPECT_EQ(client.post("/v2/systemsharedmemory/unregister"), "200 {}");
  EXPECT_EQ(client.get("/v2/systemsharedmemory/status"), "200 []");

  EXPECT_TRUE(client.get("/v2/systemsharedmemory/unregister").starts_with("405 "));
  EXPECT_TRUE(client.post("/v2/systemsharedmemory/status").starts_with("405 "));
  for (const char* path :
       {"/v2/systemsharedmemory", "/v2/systemsharedmemory/register",
        "/v2/systemsharedmemory/region/r", "/v2/systemsharedmemory/regions/r/status",
        "/v2/systemsharedmemory/region//status"}) {
    EXPECT_TRUE(client.get(path).starts_with("404 ")) << path;
  }
  EXPECT_TRUE(client.get("/v2/cudasharedmemory/status").starts_with("501 "));
  EXPECT_TRUE(client.post("/v2/cudasharedmemory/region/r/register", "{}").starts_with("501 "));
  EXPECT_TRUE(client.post(registration + std::string("r/register"), "{}").starts_with("400 "));
  const std::string large(65'537, ' ');
  EXPECT_TRUE(client.post(registration + std::string("r/register"), large).starts_with("413 "));
}

TEST(http_shared_memory, is_off_without_a_permission) {
  scripted_backend backend(test::echo);
  http_server server({.port = 0}, backend);
  shared_memory_client client(server);
  const shared_object object(8);
  EXPECT_EQ(client.get("/v2").find("shared_memory"), std::string::npos);
  const std::string off = R"(shared memory is off: no tenant may use it"})";
  EXPECT_EQ(client.add("r", object), R"(501 {"error":")" + off);
  EXPECT_EQ(client.get("/v2/systemsharedmemory/status"), R"(501 {"error":")" + off);
  EXPECT_EQ(client.post(infer_path, infer_text(input("a", "r", 0, 8), "")),
            R"(501 {"error":"input \"a\": )" + off);
}

TEST(http_shared_memory, belongs_to_a_tenant) {
  const test::tenant_file tenants;
  tenants.write("[tenant.alice]\n" + test::tenant_file::permission() + "[tenant.root]\n" +
                test::tenant_file::permission());
  const test::token_file tokens;
  auto options = options_with(tenants);
  options.access = tokens.policy();
  scripted_backend backend(test::echo);
  http_server server(std::move(options), backend);
  shared_memory_client alice(server, "Authorization: Bearer alice-token\r\n");
  shared_memory_client root(server, "Authorization: Bearer root-token\r\n");
  shared_memory_client nobody(server);
  const shared_object object(8);
  object.write(0, "of alice");
  ASSERT_EQ(alice.add("r", object), "200 {}");
  EXPECT_TRUE(nobody.add("r", object).starts_with("401 "));
  EXPECT_TRUE(nobody.get("/v2/systemsharedmemory/status").starts_with("401 "));
  EXPECT_TRUE(nobody.post("/v2/systemsharedmemory/unregister").starts_with("401 "));
  // A foreign region is as one that is not there.
  const auto request = infer_text(input("a", "r", 0, 8), output("a", "r", 0, 8));
  EXPECT_EQ(root.get("/v2/systemsharedmemory/status"), "200 []");
  EXPECT_TRUE(root.get(registration + std::string("r/status")).starts_with("404 "));
  EXPECT_EQ(root.post(registration + std::string("r/unregister")), "200 {}");
  EXPECT_EQ(root.post("/v2/systemsharedmemory/unregister"), "200 {}");
  EXPECT_EQ(root.post(infer_path, request),
            R"(400 {"error":"input \"a\": shared memory region \"r\": it is not registered"})");
  EXPECT_TRUE(alice.post(infer_path, request).starts_with("200 "));
  const shared_object other(4);
  EXPECT_EQ(root.add("r", other), "200 {}");
  EXPECT_TRUE(root.post(infer_path, request).find("exceed the region, which has 4 bytes") !=
              std::string::npos);
}

TEST(http_shared_memory, has_room_for_all_outputs_or_none_is_written) {
  const test::tenant_file tenants;
  scripted_backend backend(test::echo);
  http_server server(options_with(tenants), backend);
  shared_memory_client client(server);
  const shared_object object(100);
  object.write(0, "0123456789");
  ASSERT_EQ(client.add("r", object), "200 {}");
  const auto inputs = input("a", "r", 0, 5) + "," + input("b", "r", 5, 5);
  EXPECT_EQ(client.post(infer_path, infer_text(inputs, output("a", "r", 20, 5) + "," +
                                                           output("b", "r", 30, 4))),
            R"(413 {"error":"output \"b\": has 5 bytes, but shared_memory_byte_size is 4"})");
  EXPECT_EQ(object.read(20, 20), std::string(20, '\0'));
  EXPECT_NE(client.post(infer_path, infer_text(inputs, output("a", "r", 96, 5)))
                .find("exceed the region, which has 100 bytes"),
            std::string::npos);
  EXPECT_TRUE(client
                  .post(infer_path,
                        infer_text(inputs, output("a", "r", 20, 5) + "," + output("b", "r", 30, 5)))
                  .starts_with("200 "));
  EXPECT_EQ(object.read(20, 15), "01234" + std::string(5, '\0') + "56789");
  backend.wait_until_free();
}

TEST(http_shared_memory, is_looked_up_before_memory_is_taken) {
  const test::tenant_file tenants;
  scripted_backend backend(test::echo);
  backend.most_bytes = 100;
  http_server server(options_with(tenants), backend);
  shared_memory_client client(server);
  EXPECT_TRUE(
      client.post(infer_path, infer_text(input("a", "r", 0, 1000), "")).starts_with("400 "));
  const shared_object object(1000);
  ASSERT_EQ(client.add("r", object), "200 {}");
  EXPECT_TRUE(
      client.post(infer_path, infer_text(input("a", "r", 0, 1000), "")).starts_with("429 "));
}

TEST(http_shared_memory, that_is_truncated_in_flight_is_an_error) {
  const test::tenant_file tenants;
  scripted_backend backend(test::hold);
  http_server server(options_with(tenants), backend);
  shared_memory_client client(server);
  for (const std::size_t bytes : {std::size_t{5000}, std::size_t{1} << 20}) {
    const shared_object object(2 * bytes);
    ASSERT_EQ(client.add("r", object), "200 {}");
    const auto request = infer_text(input("a", "r", 0, bytes), output("a", "r", bytes, bytes));
    client.send(infer_path, request);
    auto held = backend.take_held();
    object.resize(bytes + 1);
    held.done(test::echo_of(held));
    const std::string truncated =
        R"({"error":"shared memory region \"r\": its object has been truncated"})";
    EXPECT_EQ(client.receive(), "400 " + truncated);
    EXPECT_EQ(object.size(), bytes + 1);
    object.resize(bytes - 1);
    EXPECT_EQ(client.post(infer_path, request), "400 " + truncated);
    object.resize(2 * bytes);
    client.send(infer_path, request);
    held = backend.take_held();
    held.done(test::echo_of(held));
    EXPECT_TRUE(client.receive().starts_with("200 "));
    ASSERT_EQ(client.post(registration + std::string("r/unregister")), "200 {}");
  }
  backend.wait_until_free();
}

TEST(http_shared_memory, that_is_unregistered_in_flight_is_kept) {
  const test::tenant_file tenants;
  scripted_backend backend(test::hold);
  http_server server(options_with(tenants), backend);
  shared_memory_client client(server);
  shared_memory_client other(server);
  std::optional<shared_object> object(16);
  object->write(0, "12345678");
  ASSERT_EQ(client.add("r", *object), "200 {}");
  client.send(infer_path, infer_text(input("a", "r", 0, 8), output("a", "r", 8, 8)));
  auto held = backend.take_held();
  ASSERT_EQ(other.post("/v2/systemsharedmemory/unregister"), "200 {}");
  held.done(test::echo_of(held));
  EXPECT_TRUE(client.receive().starts_with("200 "));
  EXPECT_EQ(object->read(8, 8), "12345678");
}

TEST(http_shared_memory, is_let_go_by_clients_that_hang_up) {
  const test::tenant_file tenants;
  std::atomic<bool> holds{true};
  scripted_backend backend([&](scripted_backend& self, test::submitted request) {
    holds ? test::hold(self, std::move(request)) : test::echo(self, std::move(request));
  });
  http_server server(options_with(tenants), backend);
  shared_memory_client keeper(server);
  const shared_object object(std::size_t{32} << 20);
  ASSERT_EQ(keeper.add("r", object), "200 {}");
  const auto request =
      infer_text(input("a", "r", 0, object.size()), output("a", "r", 0, object.size()));
  {
    shared_memory_client client(server);
    client.send(infer_path, request);
    auto held = backend.take_held();
    client.connection().close();
    backend.wait_until_cancelled(held.number);
  }
  backend.wait_until_free();
  {
    shared_memory_client client(server);
    client.send(infer_path, request);
    auto held = backend.take_held();
    held.done(test::echo_of(held));
    client.connection().reset();  // perhaps while the results are written
  }
  backend.wait_until_free();
  holds = false;
  for (int round = 0; round < 10; ++round) {
    shared_memory_client client(server);
    client.send(infer_path, request);
    client.connection().reset();  // perhaps while the inputs are read
  }
  EXPECT_TRUE(keeper.post(infer_path, request).starts_with("200 "));
  backend.wait_until_free();
}

TEST(http_shared_memory, may_be_copied_when_the_server_stops) {
  const test::tenant_file tenants;
  const shared_object object(std::size_t{16} << 20);
  for (int round = 0; round < 10; ++round) {
    scripted_backend backend(test::echo);
    {
      http_server server(options_with(tenants), backend);
      shared_memory_client client(server);
      ASSERT_EQ(client.add("r", object), "200 {}");
      client.send(infer_path, infer_text(input("a", "r", 0, object.size()),
                                         output("a", "r", 0, object.size())));
      server.stop(std::chrono::milliseconds(round % 2 == 0 ? 0 : 60'000));
      const auto reply = client.receive();
      EXPECT_TRUE(reply.starts_with("200 ") || reply == "nothing") << reply;
    }
    EXPECT_EQ(backend.bytes(), 0U);
  }
}

}  // namespace
}  // namespace sluice::service
