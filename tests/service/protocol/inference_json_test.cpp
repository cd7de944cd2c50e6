// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/inference_json.hpp"

#include "tests/service/protocol/request_text.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace sluice::service {
namespace {

using status = request_status;

constexpr std::string_view x = R"("name":"x","datatype":"INT32","shape":[1],"data":[1])";

[[nodiscard]] inference_request parse(std::string_view text, std::uint64_t binary = 0) {
  return parse_inference_request(text, binary);
}

/// A request with the input x and these fields.
[[nodiscard]] std::string with_fields(std::string_view fields) {
  return R"({"inputs":[{)" + std::string(x) + "}]," + std::string(fields) + '}';
}
[[nodiscard]] std::string with_parameters(std::string_view parameters) {
  return with_fields(R"("parameters":{)" + std::string(parameters) + '}');
}

/// Fields of the input x with these parameters.
[[nodiscard]] std::string shared_x(std::string_view parameters) {
  return R"("name":"x","shape":[1],"datatype":"INT32","parameters":{)" + std::string(parameters) +
         '}';
}

TEST(inference_json, reads_all_fields) {
  const auto request = parse(R"({
    "id": "a\u00e9",
    "parameters": {"priority": 1, "timeout": 18446744073709551615, "sequence_id": 7,
                   "sequence_start": true, "sequence_end": false, "binary_data_output": true},
    "inputs": [
      {"name": "x", "shape": [2, 3], "datatype": "FP32", "parameters": {"binary_data_size": 24}},
      {"data": [true, false], "datatype": "BOOL", "name": "y", "shape": [2]}],
    "outputs": [{"name": "u"}, {"name": "v", "parameters": {"binary_data": false}}]})",
                             24);
  EXPECT_EQ(request.id, "a\u00e9");
  EXPECT_EQ(request.priority, 1u);
  EXPECT_EQ(request.timeout_us, std::numeric_limits<std::uint64_t>::max());
  ASSERT_TRUE(request.sequence);
  EXPECT_EQ(request.sequence->id, "7");
  EXPECT_TRUE(request.sequence->starts);
  EXPECT_FALSE(request.sequence->ends);
  EXPECT_TRUE(request.wants_binary_outputs);

  ASSERT_EQ(request.inputs.size(), 2u);
  EXPECT_EQ(request.inputs[0].name, "x");
  EXPECT_EQ(request.inputs[0].type, datatype::fp32);
  EXPECT_EQ(request.inputs[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(request.inputs[0].bytes, 24u);
  EXPECT_TRUE(request.inputs[0].is_binary);
  EXPECT_EQ(request.inputs[1].name, "y");
  EXPECT_EQ(request.inputs[1].type, datatype::boolean);
  EXPECT_EQ(request.inputs[1].bytes, 2u);
  EXPECT_FALSE(request.inputs[1].is_binary);
  EXPECT_EQ(binary_bytes(request), 24u);

  ASSERT_EQ(request.outputs.size(), 2u);
  EXPECT_EQ(request.outputs[0].name, "u");
  EXPECT_TRUE(request.outputs[0].is_binary);
  EXPECT_EQ(request.outputs[1].name, "v");
  EXPECT_FALSE(request.outputs[1].is_binary);
}

TEST(inference_json, uses_defaults_for_what_is_missing) {
  const auto request = parse(with_fields(R"("outputs":[{"name":"y"}])"));
  EXPECT_TRUE(request.id.empty());
  EXPECT_EQ(request.priority, 0u);
  EXPECT_EQ(request.timeout_us, 0u);
  EXPECT_FALSE(request.sequence);
  EXPECT_FALSE(request.wants_binary_outputs);
  EXPECT_FALSE(request.outputs.at(0).is_binary);
  EXPECT_TRUE(parse(R"({"inputs":[]})").inputs.empty());
}

TEST(inference_json, does_not_depend_on_the_order_of_fields) {
  const auto request = parse(R"({"outputs":[{"name":"y"}],"inputs":[
    {"parameters":{"binary_data_size":4},"shape":[4],"name":"x","datatype":"INT8"}],
    "parameters":{"binary_data_output":true}})",
                             4);
  EXPECT_TRUE(request.outputs.at(0).is_binary);
  EXPECT_EQ(request.inputs.at(0).type, datatype::int8);
}

TEST(inference_json, ignores_unknown_fields) {
  const auto request = parse(R"({"model_name":"m","more":{"inputs":[{"name":1}],"inputs":2},
    "inputs":[{"name":"x","shape":[1],"datatype":"INT32","data":[1],"unit":["m",{"data":[3]}],
               "parameters":{"scale":1.5,"labels":["a"],"name":3}}],
    "outputs":[{"name":"y","datatype":"FP32","parameters":{"color":null,"name":3}}],
    "parameters":{"user":"u","headers":{"a":{"priority":"x"}},"id":5}})");
  EXPECT_EQ(request.inputs.at(0).name, "x");
  EXPECT_EQ(request.outputs.at(0).name, "y");
}

TEST(inference_json, reads_sequences) {
  const auto id_of = [](std::string_view id) {
    const auto request = parse(with_parameters(R"("sequence_id":)" + std::string(id)));
    return request.sequence ? request.sequence->id : "none";
  };
  EXPECT_EQ(id_of("18446744073709551615"), "18446744073709551615");
  EXPECT_EQ(id_of(R"("s 1")"), "s 1");
  EXPECT_EQ(id_of("0"), "none");
  EXPECT_EQ(id_of(R"("")"), "none");
  EXPECT_FALSE(parse(with_parameters(R"("sequence_start":false,"sequence_end":false)")).sequence);
}

TEST(inference_json, takes_tensors_without_elements) {
  const auto bytes_of = [](std::string_view shape, std::string_view data) {
    return parse(request_with("FP64", shape, data)).inputs.at(0).bytes;
  };
  EXPECT_EQ(bytes_of("[0]", "[]"), 0u);
  EXPECT_EQ(bytes_of("[3,0,2]", "[]"), 0u);
  EXPECT_EQ(bytes_of("[]", "[1]"), 8u);  // a scalar
}

TEST(inference_json, compares_binary_sizes_with_the_body) {
  const std::string text = R"({"inputs":[
    {"name":"x","shape":[2],"datatype":"FP16","parameters":{"binary_data_size":4}},
    {"name":"y","shape":[1],"datatype":"UINT8","data":[1]},
    {"name":"z","shape":[3],"datatype":"UINT64","parameters":{"binary_data_size":24}}]})";
  EXPECT_EQ(binary_bytes(parse(text, 28)), 28u);
  EXPECT_EQ(binary_bytes(parse_inference_request(text, std::nullopt)), 28u);
  for (const std::uint64_t size : {0u, 27u, 29u}) {
    expect_refusal([&] { return parse(text, size); }, status::invalid_argument,
                   "but " + std::to_string(size) + " bytes follow the JSON text");
  }
}

TEST(inference_json, limits_inputs_outputs_and_dimensions) {
  const auto request_of = [](int inputs, int outputs) {
    std::string text = R"({"inputs":[)";
    for (int i = 0; i < inputs; ++i) {
      if (i > 0) text += ',';
      text += R"({"name":"x)" + std::to_string(i) + R"(","shape":[0],"datatype":"INT8","data":[]})";
    }
    text += R"(],"outputs":[)";
    for (int i = 0; i < outputs; ++i) {
      if (i > 0) text += ',';
      text += R"({"name":"y)" + std::to_string(i) + R"("})";
    }
    return text + "]}";
  };
  EXPECT_EQ(parse(request_of(64, 64)).inputs.size(), 64u);
  expect_refusal([&] { return parse(request_of(257, 0)); }, status::invalid_argument,
                 "more than 256");
  expect_refusal([&] { return parse(request_of(0, 257)); }, status::invalid_argument,
                 "more than 256");
  EXPECT_EQ(parse(request_with("INT8", "[1,1,1,1,1,1,1,1]", "[1]")).inputs[0].shape.size(), 8u);
}

struct refusal {
  std::string text;
  std::string_view part;  ///< of the message
  request_status status = request_status::invalid_argument;
};

void PrintTo(const refusal& r, std::ostream* stream) {
  *stream << r.text;
}

class inference_json_refusal : public ::testing::TestWithParam<refusal> {};

TEST_P(inference_json_refusal, names_the_field) {
  expect_refusal([] { return parse_inference_request(GetParam().text, std::nullopt); },
                 GetParam().status, GetParam().part);
}

INSTANTIATE_TEST_SUITE_P(
    documents, inference_json_refusal,
    ::testing::Values(
        refusal{"", "raw binary request", status::unimplemented},
        refusal{" ", "request: malformed JSON at byte"},
        refusal{"{", "request: malformed JSON at byte"},
        refusal{R"({"inputs":[]} {})", "request: malformed JSON at byte"},
        refusal{R"({"inputs":[]})" + std::string(1, '\0'), "request: malformed JSON at byte 14"},
        refusal{R"({"inputs":[]})" + std::string("\0{}", 3), "malformed JSON at byte 14"},
        refusal{R"({"inputs":[],})", "malformed JSON"},
        refusal{R"({'inputs':[]})", "malformed JSON"},
        refusal{R"({"inputs":[]}//)", "malformed JSON"},
        refusal{"{\"id\":\"\xff\",\"inputs\":[]}", "malformed JSON"},
        refusal{"{\"id\":\"\xc0\x80\",\"inputs\":[]}", "malformed JSON"},
        refusal{"{\"id\":\"\xed\xa0\x80\",\"inputs\":[]}", "malformed JSON"},
        refusal{"{\"id\":\"\n\",\"inputs\":[]}", "malformed JSON"},
        refusal{R"({"id":"\ud800","inputs":[]})", "malformed JSON"},
        refusal{R"({"unknown":1e400,"inputs":[]})", "request: a number is too large"},
        refusal{R"({"unknown":)" + std::string(33, '[') + std::string(33, ']') + "}",
                "nested too deeply"},
        refusal{R"({"unknown":)" + std::string(100000, '['), "nested too deeply"},
        refusal{std::string(100000, '['), "request must be an object"},
        refusal{"[]", "request must be an object"}, refusal{"1", "request must be an object"},
        refusal{"null", "request must be an object"}));

INSTANTIATE_TEST_SUITE_P(
    requests, inference_json_refusal,
    ::testing::Values(
        refusal{"{}", "inputs is missing"}, refusal{R"({"inputs":{}})", "inputs must be an array"},
        refusal{R"({"inputs":null})", "inputs must be an array"},
        refusal{R"({"inputs":[[]]})", "arrays of objects"},
        refusal{R"({"inputs":[1]})", "arrays of objects"},
        refusal{R"({"inputs":[],"inputs":[]})", "inputs occurs twice"},
        refusal{R"({"inputs":[],"outputs":null})", "outputs must be an array"},
        refusal{R"({"inputs":[],"outputs":["y"]})", "arrays of objects"},
        refusal{R"({"inputs":[],"outputs":[],"outputs":[]})", "outputs occurs twice"},
        refusal{R"({"inputs":[],"id":1})", "id must be a string"},
        refusal{R"({"inputs":[],"id":null})", "id must be a string"},
        refusal{R"({"inputs":[],"id":["a"]})", "id must be a scalar"},
        refusal{R"({"inputs":[],"id":"a","id":"a"})", "id occurs twice"},
        refusal{R"({"inputs":[],"parameters":[]})", "parameters must be an object"},
        refusal{R"({"inputs":[],"parameters":1})", "parameters must be an object"},
        refusal{R"({"inputs":[],"parameters":{},"parameters":{}})", "parameters occurs twice"},
        refusal{with_parameters(R"("priority":-1)"), "priority must be an integer"},
        refusal{with_parameters(R"("priority":1.0)"), "priority must be an integer"},
        refusal{with_parameters(R"("priority":"1")"), "priority must be an integer"},
        refusal{with_parameters(R"("priority":18446744073709551616)"),
                "priority must be an integer"},
        refusal{with_parameters(R"("priority":1,"priority":1)"), "priority occurs twice"},
        refusal{with_parameters(R"("timeout":-5)"), "timeout must be an integer"},
        refusal{with_parameters(R"("timeout":{})"), "timeout must be a scalar"},
        refusal{with_parameters(R"("sequence_id":-1)"),
                "sequence_id must be a string or an integer"},
        refusal{with_parameters(R"("sequence_id":1.5)"), "sequence_id must be"},
        refusal{with_parameters(R"("sequence_id":true)"), "sequence_id must be"},
        refusal{with_parameters(R"("sequence_id":1,"sequence_start":1)"),
                "sequence_start must be true or false"},
        refusal{with_parameters(R"("sequence_id":1,"sequence_end":"true")"),
                "sequence_end must be true or false"},
        refusal{with_parameters(R"("sequence_start":true)"), "need a sequence_id"},
        refusal{with_parameters(R"("sequence_id":0,"sequence_end":true)"), "need a sequence_id"},
        refusal{with_parameters(R"("binary_data_output":1)"),
                "binary_data_output must be true or false"}));

INSTANTIATE_TEST_SUITE_P(
    inputs, inference_json_refusal,
    ::testing::Values(
        refusal{request_with_input(R"("shape":[1],"datatype":"INT8","data":[1])"),
                "input 0: name is missing"},
        refusal{request_with_input(R"("name":"","shape":[1],"datatype":"INT8","data":[1])"),
                "name is empty"},
        refusal{request_with_input(R"("name":5,"shape":[1],"datatype":"INT8","data":[1])"),
                "input 0: name must be a string"},
        refusal{request_with_input(R"("name":"x","name":"x")"), "input \"x\": name occurs twice"},
        refusal{R"({"inputs":[{)" + std::string(x) + "},{" + std::string(x) + "}]}",
                "input \"x\": the name occurs twice"},
        refusal{request_with_input(R"("name":"x","datatype":"INT8","data":[1])"),
                "input \"x\": shape is missing"},
        refusal{request_with_input(R"("name":"x","shape":[1],"data":[1])"),
                "input \"x\": datatype is missing"},
        refusal{request_with("FP8", "[1]", "[1]"), "input \"x\": there is no datatype \"FP8\""},
        refusal{request_with("fp32", "[1]", "[1]"), "there is no datatype"},
        refusal{request_with("BYTES", "[1]", R"(["a"])"),
                "input \"x\": the datatype BYTES is not supported", status::unimplemented},
        refusal{request_with("INT8", "[-1]", "[1]"),
                "input \"x\": shape must be an array of integers"},
        refusal{request_with("INT8", "[-0]", "[]"), "shape must be an array of integers"},
        refusal{request_with("INT8", "[1.0]", "[1]"), "shape must be an array of integers"},
        refusal{request_with("INT8", R"(["1"])", "[1]"), "shape must be an array of integers"},
        refusal{request_with("INT8", "[[1]]", "[1]"), "shape must be an array of integers"},
        refusal{request_with("INT8", "[{}]", "[1]"), "shape must be an array of integers"},
        refusal{request_with("INT8", "[9223372036854775808]", "[1]"), "shape must be an array"},
        refusal{request_with("INT8", "1", "[1]"), "shape must be an array"},
        refusal{request_with("INT8", "{}", "[1]"), "shape must be an array"},
        refusal{request_with("INT8", "[1,1,1,1,1,1,1,1,1]", "[1]"), "more than 8 dimensions"},
        refusal{request_with("INT8", "[9223372036854775807,2]", "[1]"), "exceeds 2^63 - 1 bytes"},
        refusal{request_with("INT64", "[4294967296,2147483648]", "[1]"), "exceeds 2^63 - 1 bytes"},
        refusal{request_with("INT64", "[0,4294967296,4294967296]", "[]"), "exceeds 2^63 - 1 bytes"},
        refusal{request_with("INT8", "[2]", "[1]"), "data has 1 elements, but the shape needs 2"},
        refusal{request_with("INT8", "[2]", "[1,2,3]"), "data has 3 elements"},
        refusal{request_with("INT8", "[]", "[]"), "data has 0 elements"},
        refusal{request_with("INT8", "[4611686018427387904]", "[1]"), "data has 1 elements"},
        refusal{request_with("INT8", "[1]", "1"), "data must be an array"},
        refusal{request_with("INT8", "[1]", R"("AQ==")"), "data must be an array"},
        refusal{request_with("INT8", "[1]", "{}"), "data must be an array"},
        refusal{request_with("INT8", "[1]", "[{}]"), "data must be an array"},
        refusal{request_with("INT8", "[1]", "[[[[[[[[[1]]]]]]]]]"), "data is nested too deeply"},
        refusal{request_with("FP64", "[1]", "[1e400]"), "input \"x\": a number is too large"},
        refusal{request_with("FP64", "[1]", "[NaN]"), "input \"x\": malformed JSON"},
        refusal{request_with("FP64", "[1]", "[Infinity]"), "input \"x\": malformed JSON"},
        refusal{request_with("FP64", "[1]", "[-Infinity]"), "input \"x\": malformed JSON"},
        refusal{request_with("FP64", "[1]", "[01]"), "input \"x\": malformed JSON"},
        refusal{request_with("FP64", "[1]", "[1.]"), "input \"x\": malformed JSON"},
        refusal{request_with("FP64", "[1]", "[+1]"), "input \"x\": malformed JSON"},
        refusal{request_with("FP64", "[2]", "[1,]"), "input \"x\": malformed JSON"}));

INSTANTIATE_TEST_SUITE_P(
    input_parameters, inference_json_refusal,
    ::testing::Values(
        refusal{request_with_input(R"("name":"x","shape":[1],"datatype":"INT8")"),
                "input \"x\": has neither data nor binary_data_size"},
        refusal{request_with_input(std::string(x) + R"(,"parameters":{"binary_data_size":4})"),
                "input \"x\": has both data and binary_data_size"},
        refusal{
            request_with_input(
                R"("name":"x","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":4})"),
            "input \"x\": binary_data_size is 4, but shape and datatype need 8 bytes"},
        refusal{request_with_input(R"("name":"x","parameters":{"binary_data_size":-4})"),
                "binary_data_size must be an integer"},
        refusal{request_with_input(R"("name":"x","parameters":{"binary_data_size":"4"})"),
                "binary_data_size must be an integer"},
        refusal{request_with_input(R"("parameters":{"binary_data_size":4,"binary_data_size":4})"),
                "input 0: binary_data_size occurs twice"},
        refusal{request_with_input(R"("name":"x","parameters":{},"parameters":{})"),
                "parameters occurs twice"},
        refusal{request_with_input(R"("name":"x","shape":[1],"shape":[1])"), "shape occurs twice"},
        refusal{request_with_input(R"("name":"x","data":[1],"data":[1])"), "data occurs twice"},
        refusal{request_with_input(R"("datatype":"INT8","datatype":"INT8")"),
                "datatype occurs twice"},
        refusal{request_with_input(shared_x(R"("shared_memory_region":"r")")),
                "input \"x\": shared_memory_byte_size is missing"},
        refusal{request_with_input(shared_x(R"("shared_memory_byte_size":4)")),
                "input \"x\": shared_memory_offset and shared_memory_byte_size need a "
                "shared_memory_region"},
        refusal{request_with_input(shared_x(R"("shared_memory_offset":0)")),
                "need a shared_memory_region"},
        refusal{request_with_input(
                    shared_x(R"("shared_memory_region":"r","shared_memory_byte_size":5)")),
                "input \"x\": shared_memory_byte_size is 5, but shape and datatype need 4 bytes"},
        refusal{request_with_input(
                    shared_x(R"("shared_memory_region":"r","shared_memory_byte_size":-4)")),
                "shared_memory_byte_size must be an integer from 0"},
        refusal{request_with_input(
                    shared_x(R"("shared_memory_region":"r","shared_memory_byte_size":"4")")),
                "shared_memory_byte_size must be an integer from 0"},
        refusal{request_with_input(shared_x(
                    R"("shared_memory_region":"r","shared_memory_offset":18446744073709551616)")),
                "shared_memory_offset must be an integer from 0 to 2^64 - 1"},
        refusal{request_with_input(shared_x(R"("shared_memory_region":7)")),
                "shared_memory_region must be a string"},
        refusal{request_with_input(
                    shared_x(R"("shared_memory_region":"r","shared_memory_region":"r")")),
                "shared_memory_region occurs twice"},
        refusal{request_with_input(shared_x(R"("shared_memory_region":"r",
                  "shared_memory_byte_size":4,"binary_data_size":4)")),
                "input \"x\": has shared_memory_region beside data or binary_data_size"},
        refusal{request_with_input(R"("data":[1],)" + shared_x(R"("shared_memory_region":"r",
                  "shared_memory_byte_size":4)")),
                "input \"x\": has shared_memory_region beside data or binary_data_size"},
        refusal{R"({"inputs":[
                  {"name":"x","shape":[4611686018427387904],"datatype":"INT8",
                   "parameters":{"binary_data_size":4611686018427387904}},
                  {"name":"y","shape":[4611686018427387904],"datatype":"INT8",
                   "parameters":{"binary_data_size":4611686018427387904}}]})",
                "input \"y\": the size exceeds 2^63 - 1 bytes"}));

INSTANTIATE_TEST_SUITE_P(
    outputs, inference_json_refusal,
    ::testing::Values(
        refusal{with_fields(R"("outputs":[{}])"), "output 0: name is missing"},
        refusal{with_fields(R"("outputs":[{"name":""}])"), "name is empty"},
        refusal{with_fields(R"("outputs":[{"name":"y"},{"name":"y"}])"),
                "output \"y\": the name occurs twice"},
        refusal{with_fields(R"("outputs":[{"name":"y","name":"z"}])"), "name occurs twice"},
        refusal{with_fields(R"("outputs":[{"name":"y","parameters":{"binary_data":1}}])"),
                "output \"y\": binary_data must be true or false"},
        refusal{with_fields(R"("outputs":[{"parameters":{"classification":3},"name":"y"}])"),
                "output \"y\": classification is not supported", status::unimplemented},
        refusal{with_fields(
                    R"("outputs":[{"name":"y","parameters":{"shared_memory_region":{"a":1}}}])"),
                R"(output "y": shared_memory_region must be a scalar)"},
        refusal{
            with_fields(R"("outputs":[{"name":"y","parameters":{"shared_memory_region":"r"}}])"),
            "output \"y\": shared_memory_byte_size is missing"}));

TEST(inference_json, reads_places_in_shared_memory) {
  const auto request = parse_inference_request(
      R"({"inputs":[
        {"name":"x","shape":[1],"datatype":"INT32","parameters":{"shared_memory_region":"r",
         "shared_memory_byte_size":4,"shared_memory_offset":18446744073709551615}},
        {"name":"y","shape":[1],"datatype":"INT8","parameters":{"binary_data_size":1}}],
       "outputs":[
        {"name":"z","parameters":{"shared_memory_region":"s","shared_memory_byte_size":7,
         "binary_data":false}},
        {"name":"w"}]})",
      1);
  ASSERT_TRUE(request.inputs[0].region);
  EXPECT_EQ(request.inputs[0].region->name, "r");
  EXPECT_EQ(request.inputs[0].region->offset, ~std::uint64_t{0});
  EXPECT_EQ(request.inputs[0].region->bytes, 4U);
  EXPECT_FALSE(request.inputs[0].is_in_text());
  EXPECT_FALSE(request.inputs[1].region);
  ASSERT_TRUE(request.outputs[0].region);
  EXPECT_EQ(request.outputs[0].region->name, "s");
  EXPECT_EQ(request.outputs[0].region->offset, 0U);
  EXPECT_EQ(request.outputs[0].region->bytes, 7U);
  EXPECT_FALSE(request.outputs[1].region);
  EXPECT_EQ(binary_bytes(request), 1U);
}

TEST(inference_json, cuts_names_and_control_characters_in_messages) {
  expect_refusal([] { return parse(request_with_input(R"("name":"a\n\u0000b")")); },
                 status::invalid_argument, "input \"a??b\": datatype is missing");
  // 200 characters of two bytes after one byte: the cut must not split a character.
  std::string name = "a";
  std::string cut = "a";
  for (int i = 0; i < 200; ++i) name += "\u00e9";
  for (int i = 0; i < 63; ++i) cut += "\u00e9";
  expect_refusal([&] { return parse(request_with_input(R"("name":")" + name + '"')); },
                 status::invalid_argument, "input \"" + cut + "...\": datatype is missing");
}

}  // namespace
}  // namespace sluice::service
