// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/infer_reply.hpp"

#include "service/grpc/query_messages.hpp"
#include "tests/service/grpc/wire_message.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::service {
namespace {

using test::bytes;
using test::expect_error;
using test::number;
using test::packed;

constexpr std::uint64_t any_size = std::uint64_t{1} << 30U;

std::string text_of(const outgoing_message& message) {
  std::string text;
  for (const auto& part : message.parts) {
    text += part.text;
    text.append(reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size());
  }
  EXPECT_EQ(text.size(), message.size());
  return text;
}

infer_message request(bool is_raw) {
  infer_message message{.model = "m", .version = ""};
  message.request.id = "7";
  message.request.wants_binary_outputs = is_raw;
  return message;
}

/// A result with one output, whose bytes are those of `elements`.
run_result result_of(datatype type, const std::string& elements) {
  const auto count = static_cast<std::int64_t>(elements.size() / size_of(type));
  return {.outputs = {{.name = "y",
                       .type = type,
                       .shape = {1, count},
                       .bytes = std::as_bytes(std::span(elements))}},
          .version = "3"};
}

std::string output(const std::string& type, std::int64_t count, const std::string& more = "") {
  return bytes(5, bytes(1, "y") + bytes(2, type) + bytes(3, packed({1, count})) + more);
}

const std::string head = bytes(1, "m") + bytes(2, "3") + bytes(3, "7");

TEST(infer_reply, places_outputs_in_shared_memory) {
  const std::string elements = test::memory_of<float>({1, 2, 3});
  auto message = request(true);
  message.request.outputs = {{.name = "y", .region = tensor_region{"r", 9, 100}}};
  const auto region = test::parameter(4, "shared_memory_region", bytes(3, "r")) +
                      test::parameter(4, "shared_memory_offset", number(2, 9)) +
                      test::parameter(4, "shared_memory_byte_size", number(2, 12));
  EXPECT_EQ(text_of(make_infer_reply(message, result_of(datatype::fp32, elements), any_size)),
            head + output("FP32", 3, region) + bytes(6, ""));
  message.request.wants_binary_outputs = false;
  EXPECT_EQ(text_of(make_infer_reply(message, result_of(datatype::fp32, elements), any_size)),
            head + output("FP32", 3, region));
}

TEST(infer_reply, has_raw_outputs) {
  const std::string elements = test::memory_of<float>({1, 2, 3});
  EXPECT_EQ(text_of(make_infer_reply(request(true), result_of(datatype::fp32, elements), any_size)),
            head + output("FP32", 3) + bytes(6, elements));
}

TEST(infer_reply, does_not_copy_raw_outputs) {
  const std::string elements(100, 'x');
  const auto reply =
      make_infer_reply(request(true), result_of(datatype::uint8, elements), any_size);
  EXPECT_EQ(static_cast<const void*>(reply.parts.front().bytes.data()), elements.data());
}

TEST(infer_reply, has_numbers_if_they_are_wanted) {
  const auto expect = [](datatype type, const std::string& elements, std::int64_t count,
                         const std::string& contents) {
    EXPECT_EQ(text_of(make_infer_reply(request(false), result_of(type, elements), any_size)),
              head + output(std::string(to_string(type)), count, bytes(5, contents)));
  };
  expect(datatype::int8, test::memory_of<std::int8_t>({-1, 5}), 2, bytes(2, packed({-1, 5})));
  expect(datatype::int64, test::memory_of<std::int64_t>({-7}), 1, bytes(3, packed({-7})));
  expect(datatype::uint16, test::memory_of<std::uint16_t>({65535}), 1, bytes(4, packed({65535})));
  expect(datatype::uint64, test::memory_of<std::uint64_t>({~std::uint64_t{0}}), 1,
         bytes(5, packed({-1})));
  expect(datatype::boolean, std::string("\x00\x07", 2), 2, bytes(1, packed({0, 1})));
  const auto floats = test::memory_of<float>({1.5F});
  expect(datatype::fp32, floats, 1, bytes(6, floats));
  const auto doubles = test::memory_of<double>({1.5});
  expect(datatype::fp64, doubles, 1, bytes(7, doubles));
  expect(datatype::fp64, "", 0, "");
}

TEST(infer_reply, has_raw_outputs_for_types_without_numbers) {
  EXPECT_EQ(text_of(make_infer_reply(request(false), result_of(datatype::fp16, "ab"), any_size)),
            head + output("FP16", 1) + bytes(6, "ab"));
}

TEST(infer_reply, says_that_it_is_the_last_if_asked) {
  auto message = request(true);
  message.wants_final_mark = true;
  EXPECT_EQ(text_of(make_infer_reply(message, result_of(datatype::uint8, "a"), any_size)),
            head + bytes(4, bytes(1, "triton_final_response") + bytes(2, number(1, 1))) +
                output("UINT8", 1) + bytes(6, "a"));
}

TEST(infer_reply, is_limited) {
  const std::string elements(100, 'x');
  const auto reply_of = [&](std::uint64_t most_bytes) {
    return make_infer_reply(request(true), result_of(datatype::uint8, elements), most_bytes);
  };
  const auto size = reply_of(any_size).size();
  EXPECT_NO_THROW((void)reply_of(size));
  expect_error(request_status::too_large, {"limit"}, [&] { (void)reply_of(size - 1); });
  const std::string large((std::size_t{16} << 20U) + 1, 'x');
  expect_error(request_status::too_large, {"16 MiB"}, [&] {
    (void)make_infer_reply(request(false), result_of(datatype::uint8, large), any_size);
  });
}

TEST(infer_reply, passes_errors_on) {
  expect_error(request_status::not_found, {"nothing"}, [] {
    (void)make_infer_reply(
        request(true), {.error = request_error(request_status::not_found, "nothing")}, any_size);
  });
  auto result = result_of(datatype::fp32, "");
  result.outputs.front().shape = {2};
  expect_error(request_status::internal, {"\"y\""},
               [&] { (void)make_infer_reply(request(true), std::move(result), any_size); });
}

TEST(infer_reply, is_wrapped_for_streams) {
  const std::string elements = "abc";
  const auto reply = [&] {
    return make_infer_reply(request(true), result_of(datatype::uint8, elements), any_size);
  };
  EXPECT_EQ(text_of(make_stream_reply(reply())), bytes(2, text_of(reply())));
  EXPECT_EQ(text_of(make_stream_error("7", "failed")),
            bytes(1, "failed") + bytes(2, bytes(3, "7")));
  // Clients take an empty error for none.
  EXPECT_EQ(text_of(make_stream_error("", "")), bytes(1, "the request failed") + bytes(2, ""));
}

TEST(query_messages, describe_models_and_servers) {
  EXPECT_EQ(
      model_metadata_message({.name = "m",
                              .versions = {"1", "2"},
                              .platform = "p",
                              .inputs = {{.name = "x", .type = datatype::fp16, .shape = {-1, 3}}},
                              .outputs = {{.name = "y", .type = datatype::boolean}}}),
      bytes(1, "m") + bytes(2, "1") + bytes(2, "2") + bytes(3, "p") +
          bytes(4, bytes(1, "x") + bytes(2, "FP16") + bytes(3, packed({-1, 3}))) +
          bytes(5, bytes(1, "y") + bytes(2, "BOOL")));
  constexpr std::array<std::string_view, 2> extensions{"a", "b"};
  EXPECT_EQ(server_metadata_message("s", "1.0", extensions),
            bytes(1, "s") + bytes(2, "1.0") + bytes(3, "a") + bytes(3, "b"));
  EXPECT_EQ(ready_message(true), number(1, 1));
  EXPECT_EQ(ready_message(false), "");
  EXPECT_EQ(health_message(serving_status::not_serving), number(1, 2));
}

TEST(query_messages, read_names) {
  const auto text = bytes(1, "m") + number(9, 1) + bytes(2, "3");
  const auto model = read_model_name(wire_reader(std::as_bytes(std::span(text))));
  EXPECT_EQ(model.name, "m");
  EXPECT_EQ(model.version, "3");
  expect_error(request_status::invalid_argument, {"name"},
               [] { (void)read_model_name(wire_reader()); });
  EXPECT_EQ(read_service_name(wire_reader(std::as_bytes(std::span(text)))), "m");
}

}  // namespace
}  // namespace sluice::service
