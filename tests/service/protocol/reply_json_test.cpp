// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/reply_json.hpp"

#include "tests/service/protocol/request_text.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <limits>
#include <string>
#include <vector>

namespace sluice::service {
namespace {

using nlohmann::json;
using status = request_status;

TEST(reply_json, describes_outputs) {
  const std::array<float, 2> y{0.5F, 2.0F};
  const std::array<std::int64_t, 3> z{1, 2, 3};
  const std::array<std::int64_t, 2> y_shape{1, 2};
  const std::array<std::int64_t, 1> z_shape{3};
  const std::array outputs{reply_output{.name = "y",
                                        .type = datatype::fp32,
                                        .shape = y_shape,
                                        .bytes = std::as_bytes(std::span(y))},
                           reply_output{.name = "z",
                                        .type = datatype::int64,
                                        .shape = z_shape,
                                        .bytes = std::as_bytes(std::span(z)),
                                        .is_binary = true}};
  const auto text = inference_reply_json({.model = "m", .version = "3", .id = "i"}, outputs);
  EXPECT_EQ(json::parse(text), json::parse(R"({
    "model_name": "m", "model_version": "3", "id": "i",
    "outputs": [
      {"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [0.5, 2.0]},
      {"name": "z", "datatype": "INT64", "shape": [3], "parameters": {"binary_data_size": 24}}]})"))
      << text;
}

TEST(reply_json, leaves_out_an_empty_id) {
  const auto reply = json::parse(inference_reply_json({.model = "m", .version = "1"}, {}));
  EXPECT_FALSE(reply.contains("id"));
  EXPECT_EQ(reply.at("outputs"), json::array());
}

TEST(reply_json, takes_scalars_and_empty_tensors) {
  const std::array<std::int8_t, 1> scalar{-5};
  const std::array<std::int64_t, 2> empty_shape{0, 4};
  const std::array outputs{
      reply_output{.name = "s", .type = datatype::int8, .bytes = std::as_bytes(std::span(scalar))},
      reply_output{.name = "e", .type = datatype::fp64, .shape = empty_shape}};
  const auto reply = json::parse(inference_reply_json({.model = "m", .version = "1"}, outputs));
  EXPECT_EQ(reply.at("outputs").at(0).at("shape"), json::array());
  EXPECT_EQ(reply.at("outputs").at(0).at("data"), json::array({-5}));
  EXPECT_EQ(reply.at("outputs").at(1).at("data"), json::array());
}

TEST(reply_json, refuses_numbers_that_are_not_finite_unless_binary) {
  const std::array<float, 2> values{1.0F, std::numeric_limits<float>::infinity()};
  const std::array<std::int64_t, 1> shape{2};
  std::array outputs{reply_output{.name = "y",
                                  .type = datatype::fp32,
                                  .shape = shape,
                                  .bytes = std::as_bytes(std::span(values))}};
  const auto write = [&] {
    return inference_reply_json({.model = "m", .version = "1"}, outputs);
  };
  expect_refusal(write, status::invalid_argument, "output \"y\": a NaN or an infinity");
  outputs[0].is_binary = true;
  EXPECT_NE(write().find("binary_data_size\":8"), std::string::npos);
}

TEST(reply_json, refuses_outputs_that_do_not_fit_their_shape) {
  const std::vector<std::byte> bytes(8);
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{
           {1}, {3}, {-1, -2}, {std::int64_t{1} << 62, 8}, {0}}) {
    const std::array outputs{
        reply_output{.name = "y", .type = datatype::fp32, .shape = shape, .bytes = bytes}};
    expect_refusal([&] { return inference_reply_json({.model = "m", .version = "1"}, outputs); },
                   status::internal, "output \"y\": the size is not that of the shape");
  }
}

TEST(reply_json, escapes_strings) {
  const std::string name = "q\" b\\ n\n z" + std::string(1, '\0') + " \x7f <é>";
  const std::array<std::int64_t, 1> shape{0};
  const std::array outputs{reply_output{.name = name, .type = datatype::int8, .shape = shape}};
  const auto text = inference_reply_json({.model = name, .version = name, .id = name}, outputs);
  const auto reply = json::parse(text);
  EXPECT_EQ(reply.at("model_name"), name);
  EXPECT_EQ(reply.at("model_version"), name);
  EXPECT_EQ(reply.at("id"), name);
  EXPECT_EQ(reply.at("outputs").at(0).at("name"), name);
  for (const char c : text) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
}

TEST(reply_json, replaces_bytes_that_are_not_utf8) {
  EXPECT_EQ(json::parse(error_json("a\xff\xc0\xaf"
                                   "b\xe2\x82"))
                .at("error"),
            "a\ufffd\ufffd\ufffd"
            "b\ufffd");
  EXPECT_EQ(error_json("plain"), R"({"error":"plain"})");
  EXPECT_EQ(error_json(""), R"({"error":""})");
}

TEST(reply_json, describes_a_model) {
  const model_metadata model{.name = "m",
                             .versions = {"1", "2"},
                             .platform = "onnx_sluice",
                             .inputs = {{.name = "x", .type = datatype::fp16, .shape = {-1, 3}}},
                             .outputs = {{.name = "y", .type = datatype::boolean, .shape = {}},
                                         {.name = "z", .type = datatype::int8, .shape = {2}}}};
  EXPECT_EQ(json::parse(model_metadata_json(model)), json::parse(R"({
    "name": "m", "versions": ["1", "2"], "platform": "onnx_sluice",
    "inputs": [{"name": "x", "datatype": "FP16", "shape": [-1, 3]}],
    "outputs": [{"name": "y", "datatype": "BOOL", "shape": []},
                {"name": "z", "datatype": "INT8", "shape": [2]}]})"));
}

TEST(reply_json, describes_the_server) {
  const std::array<std::string_view, 2> extensions{"binary_tensor_data", "parameters"};
  EXPECT_EQ(json::parse(server_metadata_json("sluiced", "0.1", extensions)), json::parse(R"({
    "name": "sluiced", "version": "0.1", "extensions": ["binary_tensor_data", "parameters"]})"));
  EXPECT_EQ(json::parse(server_metadata_json("s", "v", {})).at("extensions"), json::array());
}

}  // namespace
}  // namespace sluice::service
