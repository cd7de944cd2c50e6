// SPDX-License-Identifier: Apache-2.0
// Replies about models, beside an encoder of their own.
#include "service/grpc/config_message.hpp"
#include "service/grpc/repository_messages.hpp"
#include "service/grpc/statistics_message.hpp"
#include "tests/service/grpc/wire_message.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

namespace sluice::service {
namespace {

using std::chrono::nanoseconds;
using test::bytes;
using test::number;
using test::packed;

/// The message of a config without what `fields` replaces.
std::string config_with(const std::string& policy, const std::string& before_group,
                        const std::string& sequences = "", const std::string& warm_ups = "",
                        const std::string& precision = "original",
                        const std::string& is_required = "false", std::uint64_t lanes = 1) {
  return bytes(1, bytes(1, "m") + bytes(2, "onnx_sluice") + bytes(3, policy) + before_group +
                      bytes(7, number(2, lanes)) + sequences +
                      bytes(14, bytes(1, "precision") + bytes(2, bytes(1, precision))) +
                      bytes(14, bytes(1, "required") + bytes(2, bytes(1, is_required))) + warm_ups +
                      bytes(17, "sluice"));
}

TEST(config_message, has_the_defaults) {
  EXPECT_EQ(config_message({.name = "m"}), config_with(bytes(1, number(1, 1)), ""));
}

TEST(config_message, has_every_key) {
  model_config config{.name = "m",
                      .max_batch_size = 8,
                      .lanes = 3,
                      .precision = precision::f16,
                      .is_required = true,
                      .versions = {.kind = version_policy::choice::specific, .versions = {2, 300}}};
  config.inputs = {{.name = "x", .type = datatype::fp32, .dims = {-1, 80}}, {.name = "s"}};
  config.outputs = {{.name = "y", .type = datatype::bf16, .dims = {4}}};
  config.warm_ups = {{.name = "w",
                      .batch_size = 2,
                      .count = 5,
                      .inputs = {{.tensor = {.name = "x", .type = datatype::int64, .dims = {7}},
                                  .is_random = true},
                                 {.tensor = {.name = "z", .type = datatype::uint8}}}}};
  config.sequences = sequence_config{
      .idle_timeout = std::chrono::microseconds(700),
      .state = {{.input = "h", .output = "g", .type = datatype::fp64, .dims = {1, 2}}}};
  const auto tensors = number(4, 8) +
                       bytes(5, bytes(1, "x") + number(2, 11) + bytes(4, packed({-1, 80}))) +
                       bytes(5, bytes(1, "s") + number(2, 11)) +
                       bytes(6, bytes(1, "y") + number(2, 14) + bytes(3, packed({4})));
  const auto sequences = bytes(
      13, number(1, 700) +
              bytes(5, bytes(1, "h") + bytes(2, "g") + number(3, 12) + bytes(4, packed({1, 2}))));
  const auto warm_ups = bytes(
      16,
      bytes(1, "w") + number(2, 2) +
          bytes(3, bytes(1, "x") + bytes(2, number(1, 9) + bytes(2, packed({7})) + number(4, 1))) +
          bytes(3, bytes(1, "z") + bytes(2, number(1, 2) + number(3, 1))) + number(4, 5));
  EXPECT_EQ(config_message(config), config_with(bytes(3, bytes(1, packed({2, 300}))), tensors,
                                                sequences, warm_ups, "f16", "true", 3));
  EXPECT_EQ(config_message({.name = "m", .versions = {.kind = version_policy::choice::all}}),
            config_with(bytes(2, ""), ""));
}

TEST(config_message, has_the_steps_of_a_chain) {
  const auto entry = [](const char* key, const char* value) {
    return bytes(1, key) + bytes(2, value);
  };
  const auto first = bytes(1, "a") + number(2, ~std::uint64_t{0}) + bytes(3, entry("x", "page")) +
                     bytes(4, entry("y", "line")) + bytes(4, entry("z", "box"));
  const auto second = bytes(1, "b") + number(2, 7) + bytes(4, entry("y", "text"));
  const auto message = config_message(
      {.name = "m",
       .steps = {
           {.model = "a", .inputs = {{"x", "page"}}, .outputs = {{"z", "box"}, {"y", "line"}}},
           {.model = "b", .version = 7, .outputs = {{"y", "text"}}}}});
  EXPECT_NE(message.find(bytes(15, bytes(1, first) + bytes(1, second))), std::string::npos);
  EXPECT_NE(message.find(bytes(1, "m") + bytes(2, "ensemble")), std::string::npos);
  EXPECT_EQ(message.find("sluice"), std::string::npos) << "there is no backend";
}

TEST(config_message, numbers_the_types) {
  constexpr std::uint64_t numbers[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14};
  for (std::size_t i = 0; i < std::size(numbers); ++i) {
    const auto message = config_message(
        {.name = "m", .inputs = {{.name = "x", .type = static_cast<datatype>(i), .dims = {1}}}});
    EXPECT_EQ(message,
              config_with(bytes(1, number(1, 1)),
                          bytes(5, bytes(1, "x") + number(2, numbers[i]) + bytes(4, packed({1})))));
  }
}

TEST(statistics_message, counts) {
  const auto statistics = std::make_shared<model_statistics>();
  for (int i = 0; i < 4; ++i) {
    statistics->begin();
    statistics->succeed(nanoseconds(1000), {.queue_ns = 100, .compute_ns = 700, .batch = 2}, 3);
  }
  statistics->begin();
  statistics->fail(nanoseconds(50));
  const backend_status backend{
      .versions = {{.model = "m", .version = 1, .statistics = statistics},
                   {.model = "m", .version = 2, .statistics = std::make_shared<model_statistics>()},
                   {.model = "n"}}};
  const auto duration = [](std::uint32_t field, std::uint64_t count, std::uint64_t ns) {
    return bytes(field, (count == 0 ? "" : number(1, count)) + (ns == 0 ? "" : number(2, ns)));
  };
  const auto stats = [&](std::uint64_t count) {
    return bytes(6, duration(1, count, 1000 * count) + duration(2, count / 4, 50 * count / 4) +
                        duration(3, count, 100 * count) + duration(4, count, 0) +
                        duration(5, count, 700 * count) + duration(6, count, 0) +
                        duration(7, 0, 0) + duration(8, 0, 0));
  };
  const auto last = number(3, static_cast<std::uint64_t>(statistics->counts().last_success_ms));
  const auto first = bytes(
      1, bytes(1, "m") + bytes(2, "1") + last + number(4, 12) + number(5, 2) + stats(4) +
             bytes(7, number(1, 2) + duration(2, 2, 0) + duration(3, 2, 1400) + duration(4, 2, 0)));
  const auto second = bytes(1, bytes(1, "m") + bytes(2, "2") + stats(0));
  EXPECT_EQ(statistics_message(backend, "m", "1"), first);
  EXPECT_EQ(statistics_message(backend, "m", "2"), second);
  EXPECT_EQ(statistics_message(backend, "m", ""), first + second);
  EXPECT_EQ(statistics_message(backend, "", ""), first + second);
  EXPECT_EQ(statistics_message(backend, "n", ""), "");
  test::expect_error(request_status::not_found, {"\"x\""},
                     [&] { (void)statistics_message(backend, "x", ""); });
  test::expect_error(request_status::not_found, {"\"m\"", "\"3\""},
                     [&] { (void)statistics_message(backend, "m", "3"); });
}

TEST(repository_messages, list_the_models) {
  const std::vector<repository_entry> entries{
      {.model = "a", .version = "1", .state = serving_state::ready},
      {.model = "b", .state = serving_state::loading},
      {.model = "c", .version = "7", .reason = "it is broken"}};
  const auto ready = bytes(1, bytes(1, "a") + bytes(2, "1") + bytes(3, "READY"));
  EXPECT_EQ(repository_index_message(entries, true), ready);
  EXPECT_EQ(repository_index_message(entries, false),
            ready + bytes(1, bytes(1, "b") + bytes(3, "LOADING")) +
                bytes(1, bytes(1, "c") + bytes(2, "7") + bytes(3, "UNAVAILABLE") +
                             bytes(4, "it is broken")));
}

TEST(repository_messages, read_requests_for_the_index) {
  const auto read = [](const std::string& message) {
    return read_index_request(wire_reader(std::as_bytes(std::span(message))));
  };
  EXPECT_FALSE(read(""));
  EXPECT_TRUE(read(number(2, 1) + number(9, 1)));
  EXPECT_FALSE(read(bytes(1, "") + number(2, 0)));
  test::expect_error(request_status::unimplemented, {"repository_name"},
                     [&] { (void)read(bytes(1, "r")); });
  test::expect_error(request_status::invalid_argument, {}, [&] { (void)read("\x08"); });
}

}  // namespace
}  // namespace sluice::service
