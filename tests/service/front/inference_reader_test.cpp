// SPDX-License-Identifier: Apache-2.0
#include "service/front/inference_reader.hpp"

#include "service/front/http_error.hpp"
#include "tests/service/front/compressed.hpp"
#include "tests/service/front/scripted_backend.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

namespace sluice::service {
namespace {

using test::scripted_backend;

constexpr std::uint64_t limit = std::uint64_t{8} << 20;

struct reading {
  explicit reading(scripted_backend& backend) : reader(backend, json, *tenants, regions) {}

  /// Reads the body in pieces, and straight into tensors if `is_direct`.
  inference_reader::need read(const request_head& head, const std::string& wire, std::size_t piece,
                              bool is_direct = false) {
    body = request_body(head, limit);
    reader.begin(body, head.json_bytes, limit, "");
    read_buffer buffer(1000);
    std::size_t sent = 0;
    while (true) {
      const auto next = reader.read(buffer, body);
      if (next == inference_reader::need::work) {
        reader.work();
        continue;
      }
      if (next == inference_reader::need::nothing || sent == wire.size()) {
        left = buffer.size() + wire.size() - sent;
        return next;
      }
      auto target =
          is_direct && buffer.empty() ? reader.direct_target(body) : std::span<std::byte>{};
      const bool goes_direct = !target.empty();
      if (!goes_direct) target = buffer.prepare();
      const std::size_t bytes = std::min({piece, target.size(), wire.size() - sent});
      std::memcpy(target.data(), wire.data() + sent, bytes);
      sent += bytes;
      direct += goes_direct ? bytes : 0;
      if (goes_direct) {
        reader.take_direct(bytes, body);
      } else {
        buffer.commit(bytes);
      }
    }
  }

  std::string tensor(std::size_t index) {
    if (!inputs) inputs = reader.take_inputs();
    const auto bytes = inputs->tensor(index);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  byte_budget json{1 << 20};
  const std::shared_ptr<const tenant_registry> tenants = std::make_shared<tenant_registry>();
  const region_registry regions{tenants};
  inference_reader reader;
  request_body body{};
  std::unique_ptr<input_memory> inputs{};
  std::size_t left = 0;
  std::size_t direct = 0;
};

request_head head_of(const std::string& wire, std::optional<std::uint64_t> json_bytes) {
  request_head head{};
  head.content_length = wire.size();
  head.json_bytes = json_bytes;
  return head;
}

std::string binary_input(const std::string& name, std::size_t bytes) {
  return R"({"name":")" + name + R"(","datatype":"UINT8","shape":[)" + std::to_string(bytes) +
         R"(],"parameters":{"binary_data_size":)" + std::to_string(bytes) + "}}";
}

TEST(inference_reader, reads_tensors_into_their_places) {
  auto random = sluice::test::make_generator();
  scripted_backend backend(test::echo);
  for (int round = 0; round < 300; ++round) {
    const std::string a(random() % 3000 + 1, static_cast<char>('a' + random() % 26));
    const std::string b(random() % 3000 + 1, static_cast<char>('a' + random() % 26));
    const std::string json =
        R"({"inputs":[)" + binary_input("a", a.size()) +
        R"(,{"name":"j","datatype":"UINT8","shape":[3],"data":[104,105,33]},)" +
        binary_input("b", b.size()) + "]}";
    const auto coding = static_cast<content_coding>(random() % 3);
    const bool is_chunked = random() % 2 == 0;
    std::string wire = test::compressed(json + a + b, coding);
    if (is_chunked) wire = test::chunked(wire, random() % 900 + 1);
    auto head = head_of(wire, json.size());
    head.coding = coding;
    head.is_chunked = is_chunked;
    if (is_chunked) head.content_length = 0;

    reading read(backend);
    const bool is_direct = random() % 2 == 0;
    ASSERT_EQ(read.read(head, wire + "next", random() % 1500 + 1, is_direct),
              inference_reader::need::nothing);
    EXPECT_EQ(read.left, 4U);
    EXPECT_EQ(read.reader.request().inputs.size(), 3U);
    EXPECT_EQ(read.tensor(0), a);
    EXPECT_EQ(read.tensor(1), "hi!");
    EXPECT_EQ(read.tensor(2), b);
    EXPECT_EQ(read.json.used(), 0U);
  }
  EXPECT_EQ(backend.bytes(), 0U);
}

TEST(inference_reader, large_tensors_are_not_copied) {
  scripted_backend backend(test::echo);
  const std::string tensor(100'000, 'x');
  const std::string json = R"({"inputs":[)" + binary_input("a", tensor.size()) + "]}";
  reading read(backend);
  ASSERT_EQ(read.read(head_of(json + tensor, json.size()), json + tensor, 1 << 20, true),
            inference_reader::need::nothing);
  EXPECT_EQ(read.tensor(0), tensor);
  EXPECT_GE(read.direct, tensor.size() - 1000);
}

TEST(inference_reader, long_text_is_parsed_apart) {
  scripted_backend backend(test::echo);
  std::string json = R"({"inputs":[{"name":"a","datatype":"UINT8","shape":[50000],"data":[7)";
  for (int i = 1; i < 50'000; ++i) json += ",7";
  json += "]}]}";
  for (const bool is_chunked : {false, true}) {
    const std::string wire = is_chunked ? test::chunked(json, 5000) : json;
    auto head = head_of(wire, std::nullopt);
    head.is_chunked = is_chunked;
    if (is_chunked) head.content_length = 0;
    reading read(backend);
    ASSERT_EQ(read.read(head, wire, 999), inference_reader::need::nothing);
    EXPECT_EQ(read.tensor(0), std::string(50'000, '\7'));
    EXPECT_EQ(read.json.used(), 0U);
  }
}

request_status refusal(reading& read, const request_head& head, const std::string& wire) {
  try {
    (void)read.read(head, wire, 100);
  } catch (const request_error& error) {
    return error.status();
  }
  ADD_FAILURE() << "not refused: " << wire;
  return request_status::internal;
}

TEST(inference_reader, refuses_bodies_that_do_not_fit_their_text) {
  scripted_backend backend(test::echo);
  const std::string json = R"({"inputs":[)" + binary_input("a", 8) + "]}";
  for (const bool is_chunked : {false, true}) {
    for (const std::string& tensor : {std::string(7, 'x'), std::string(9, 'x'), std::string()}) {
      const std::string wire = is_chunked ? test::chunked(json + tensor, 1000) : json + tensor;
      auto head = head_of(wire, json.size());
      head.is_chunked = is_chunked;
      if (is_chunked) head.content_length = 0;
      reading read(backend);
      EXPECT_EQ(refusal(read, head, wire), request_status::invalid_argument);
    }
  }
  reading read(backend);
  EXPECT_EQ(refusal(read, head_of(json, json.size() + 1), json), request_status::invalid_argument);
  EXPECT_EQ(refusal(read, head_of(json, std::nullopt), json), request_status::invalid_argument);
  read.reader.reset();
  EXPECT_EQ(backend.bytes(), 0U);
}

TEST(inference_reader, text_of_all_readers_is_limited) {
  scripted_backend backend(test::echo);
  reading read(backend);
  byte_charge others(read.json);
  const std::string json(900'000, ' ');
  ASSERT_TRUE(others.try_grow_to(500'000));
  EXPECT_EQ(refusal(read, head_of(json, std::nullopt), json), request_status::resource_exhausted);
  read.reader.reset();
  EXPECT_EQ(read.json.used(), 500'000U);
  others.release();
  EXPECT_EQ(refusal(read, head_of(json, std::nullopt), json), request_status::invalid_argument);
}

TEST(inference_reader, memory_that_the_backend_refuses_is_an_error) {
  scripted_backend backend(test::echo);
  backend.most_bytes = 7;
  const std::string json = R"({"inputs":[)" + binary_input("a", 8) + "]}";
  reading read(backend);
  EXPECT_EQ(refusal(read, head_of(json + "12345678", json.size()), json + "12345678"),
            request_status::resource_exhausted);
}

}  // namespace
}  // namespace sluice::service
