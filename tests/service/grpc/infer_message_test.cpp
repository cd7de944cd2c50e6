// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/infer_message.hpp"

#include "service/grpc/region_messages.hpp"
#include "service/protocol/datatype.hpp"
#include "tests/service/grpc/wire_message.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <optional>

namespace sluice::service {
namespace {

using test::bytes;
using test::expect_error;
using test::number;
using test::packed;
using test::parameter;

std::string input(const std::string& name, const std::string& type,
                  const std::vector<std::int64_t>& shape, const std::string& more = "") {
  return bytes(5, bytes(1, name) + bytes(2, type) + bytes(3, packed(shape)) + more);
}

std::string request_with(const std::string& fields) {
  return bytes(1, "m") + fields;
}

infer_message parse(const std::string& text) {
  infer_message message;
  parse_infer_message(wire_reader(std::as_bytes(std::span(text))), message);
  return message;
}

void expect_refused(std::initializer_list<std::string_view> words, const std::string& fields,
                    request_status status = request_status::invalid_argument) {
  expect_error(status, words, [&] { (void)parse(request_with(fields)); });
}

/// The bytes of the inputs of a request.
std::vector<std::string> tensors_of(const std::string& text) {
  const auto message = parse(text);
  std::vector<std::string> tensors;
  for (const auto& each : message.request.inputs) tensors.emplace_back(each.bytes, '\x5a');
  std::vector<std::span<std::byte>> spans;
  for (auto& tensor : tensors) spans.push_back(std::as_writable_bytes(std::span(tensor)));
  read_tensors(message, spans);
  return tensors;
}

std::string with_contents(const std::string& type, std::int64_t elements,
                          const std::string& contents) {
  return request_with(input("x", type, {elements}, bytes(5, contents)));
}

TEST(infer_message, reads_raw_inputs_from_random_pieces) {
  auto random = sluice::test::make_generator();
  for (int round = 0; round < 100; ++round) {
    std::string inputs;
    std::string raw;
    std::vector<std::string> expected;
    const std::size_t count = 1 + random() % 5;
    for (std::size_t i = 0; i < count; ++i) {
      const auto type = static_cast<datatype>(random() % 13);
      const auto elements = static_cast<std::int64_t>(random() % 40);
      inputs += input("in" + std::to_string(i), std::string(to_string(type)), {1, elements});
      std::string tensor(static_cast<std::size_t>(elements) * size_of(type), '\0');
      for (auto& c : tensor) c = static_cast<char>(random());
      raw += bytes(7, tensor);
      expected.push_back(std::move(tensor));
    }
    // The order of the fields does not matter.
    const auto text = random() % 2 == 0 ? request_with(inputs + raw) : raw + request_with(inputs);
    const test::pieces memory(text, random);
    infer_message message;
    parse_infer_message(wire_reader(memory.spans()), message);
    ASSERT_EQ(message.request.inputs.size(), count);
    EXPECT_TRUE(message.request.wants_binary_outputs);
    std::vector<std::string> tensors;
    for (const auto& each : expected) tensors.emplace_back(each.size(), '\0');
    std::vector<std::span<std::byte>> spans;
    for (auto& tensor : tensors) spans.push_back(std::as_writable_bytes(std::span(tensor)));
    read_tensors(message, spans);
    EXPECT_EQ(tensors, expected);
  }
}

TEST(infer_message, reads_names_parameters_and_outputs) {
  const auto message = parse(request_with(
      bytes(2, "3") + bytes(3, "id-7") + parameter(4, "timeout", number(2, 1500)) +
      parameter(4, "priority", number(5, 2)) + parameter(4, "unknown", bytes(3, "text")) +
      parameter(4, "triton_enable_empty_final_response", number(1, 1)) + bytes(6, bytes(1, "y")) +
      bytes(6, bytes(1, "z")) + number(99, 5)));
  EXPECT_EQ(message.model, "m");
  EXPECT_EQ(message.version, "3");
  EXPECT_EQ(message.request.id, "id-7");
  EXPECT_EQ(message.request.timeout_us, 1500U);
  EXPECT_EQ(message.request.priority, 2U);
  EXPECT_TRUE(message.wants_final_mark);
  ASSERT_EQ(message.request.outputs.size(), 2U);
  EXPECT_EQ(message.request.outputs[1].name, "z");
  EXPECT_FALSE(message.request.sequence);
}

TEST(infer_message, knows_the_form_of_the_outputs) {
  const auto typed = input("x", "UINT8", {1}, bytes(5, bytes(4, "\x05")));
  EXPECT_FALSE(parse(request_with(typed)).request.wants_binary_outputs);
  EXPECT_TRUE(parse(request_with("")).request.wants_binary_outputs);
  EXPECT_TRUE(parse(request_with(typed + parameter(4, "binary_data_output", number(1, 1))))
                  .request.wants_binary_outputs);
  const auto raw = input("x", "UINT8", {1}) + bytes(7, "\x05");
  EXPECT_FALSE(parse(request_with(raw + parameter(4, "binary_data_output", number(1, 0))))
                   .request.wants_binary_outputs);
}

TEST(infer_message, reads_sequences) {
  const auto of = [](const std::string& id) {
    return parse(request_with(parameter(4, "sequence_id", id) +
                              parameter(4, "sequence_start", number(1, 1))))
        .request.sequence;
  };
  EXPECT_EQ(of(number(2, 12)).value().id, "12");
  EXPECT_EQ(of(bytes(3, "a")).value().id, "a");
  EXPECT_TRUE(of(number(5, 12)).value().starts);
  expect_refused({"sequence_id"}, parameter(4, "sequence_start", number(1, 1)));
}

TEST(infer_message, reads_elements_of_all_types) {
  const std::vector<std::int64_t> ends{std::numeric_limits<std::int32_t>::min(), -1, 0, 77,
                                       std::numeric_limits<std::int32_t>::max()};
  const std::vector<std::int32_t> ends32(ends.begin(), ends.end());
  EXPECT_EQ(tensors_of(with_contents("INT32", 5, bytes(2, packed(ends)))).front(),
            test::memory_of(ends32));
  EXPECT_EQ(tensors_of(with_contents("INT8", 2, bytes(2, packed({-128, 127})))).front(),
            test::memory_of<std::int8_t>({-128, 127}));
  EXPECT_EQ(tensors_of(with_contents("INT16", 2, bytes(2, packed({-32768, 32767})))).front(),
            test::memory_of<std::int16_t>({-32768, 32767}));
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(tensors_of(with_contents("INT64", 2, bytes(3, packed({least, -5})))).front(),
            test::memory_of<std::int64_t>({least, -5}));
  EXPECT_EQ(tensors_of(with_contents("UINT8", 2, bytes(4, packed({0, 255})))).front(),
            test::memory_of<std::uint8_t>({0, 255}));
  EXPECT_EQ(tensors_of(with_contents("UINT16", 1, bytes(4, packed({65535})))).front(),
            test::memory_of<std::uint16_t>({65535}));
  EXPECT_EQ(tensors_of(with_contents("UINT32", 1, bytes(4, packed({4294967295})))).front(),
            test::memory_of<std::uint32_t>({4294967295}));
  EXPECT_EQ(tensors_of(with_contents("UINT64", 1, bytes(5, packed({-1})))).front(),
            test::memory_of<std::uint64_t>({std::numeric_limits<std::uint64_t>::max()}));
  EXPECT_EQ(tensors_of(with_contents("BOOL", 3, bytes(1, packed({1, 0, 2})))).front(),
            std::string("\x01\x00\x01", 3));
  const auto floats = test::memory_of<float>({1.5F, -0.0F, std::numeric_limits<float>::infinity()});
  EXPECT_EQ(tensors_of(with_contents("FP32", 3, bytes(6, floats))).front(), floats);
  const auto doubles = test::memory_of<double>({1e300, -7});
  EXPECT_EQ(tensors_of(with_contents("FP64", 2, bytes(7, doubles))).front(), doubles);
}

TEST(infer_message, reads_elements_that_are_not_packed) {
  EXPECT_EQ(
      tensors_of(with_contents("UINT8", 4, number(4, 1) + bytes(4, "\x02\x03") + number(4, 255)))
          .front(),
      "\x01\x02\x03\xff");
  const auto one = test::memory_of<float>({2.5F});
  EXPECT_EQ(tensors_of(with_contents("FP32", 2, test::tag(6, 5) + one + bytes(6, one))).front(),
            one + one);
}

TEST(infer_message, refuses_elements_that_do_not_fit) {
  const auto expect = [](const std::string& type, std::int64_t elements,
                         const std::string& contents,
                         std::initializer_list<std::string_view> words) {
    expect_error(request_status::invalid_argument, words,
                 [&] { (void)tensors_of(with_contents(type, elements, contents)); });
  };
  expect("UINT8", 1, bytes(4, packed({300})), {"\"x\"", "300"});
  expect("INT8", 1, bytes(2, packed({-129})), {"\"x\"", "-129"});
  expect("INT32", 1, bytes(2, packed({std::int64_t{1} << 31U})), {"2147483648"});
  expect("UINT8", 2, bytes(4, packed({1, 2, 3})), {"elements"});
  expect("UINT16", 2, bytes(4, packed({300})), {"elements"});
  expect("UINT8", 2, bytes(2, packed({1, 2})), {"UINT8"});
  expect("FP32", 1, bytes(6, "abcde"), {"within an element"});
  expect("FP32", 1, bytes(6, "abcdefgh"), {"elements"});
  expect("UINT8", 1, bytes(4, "\x80"), {"malformed"});
  expect("FP16", 1, bytes(6, "abcd"), {"FP16", "raw_input_contents"});
  expect("BF16", 1, bytes(4, packed({1})), {"BF16", "raw_input_contents"});
}

TEST(infer_message, refuses_large_tensors_with_few_elements_before_they_have_memory) {
  expect_error(request_status::invalid_argument, {"elements"}, [] {
    (void)parse(with_contents("UINT8", std::int64_t{1} << 40U, bytes(4, packed({1}))));
  });
}

TEST(infer_message, refuses_contradictions) {
  const auto x = input("x", "UINT8", {2});
  expect_refused({"name"}, bytes(5, bytes(2, "UINT8")));
  expect_refused({"twice"}, x + x);
  expect_refused({"\"x\"", "datatype"}, bytes(5, bytes(1, "x")));
  expect_refused({"FP9"}, input("x", "FP9", {1}));
  expect_refused({"shape"}, input("x", "UINT8", {-1}));
  expect_refused({"8 dimensions"}, input("x", "UINT8", std::vector<std::int64_t>(9, 1)));
  expect_refused({"2^63"}, input("x", "UINT8", {std::int64_t{1} << 62U, 4}));
  expect_refused({"2^63"}, input("x", "UINT8", {0, std::int64_t{1} << 62U, 4}));
  expect_refused({"raw_input_contents", "2 tensors", "1 inputs"},
                 x + bytes(7, "ab") + bytes(7, "cd"));
  expect_refused({"\"x\"", "3 bytes", "need 2"}, x + bytes(7, "abc"));
  expect_refused({"beside raw"},
                 input("x", "UINT8", {2}, bytes(5, bytes(4, "\1\2"))) + bytes(7, "ab"));
  expect_refused({"contents occurs twice"},
                 input("x", "UINT8", {2}, bytes(5, bytes(4, "\1")) + bytes(5, bytes(4, "\1"))));
  expect_refused({"timeout"}, parameter(4, "timeout", bytes(3, "soon")));
  expect_refused({"timeout"}, parameter(4, "timeout", number(2, static_cast<std::uint64_t>(-1))));
  expect_refused({"output", "twice"}, bytes(6, bytes(1, "y")) + bytes(6, bytes(1, "y")));
  expect_error(request_status::invalid_argument, {"model_name"}, [] { (void)parse(""); });
  std::string many;
  for (int i = 0; i < 257; ++i) many += input("x" + std::to_string(i), "UINT8", {0});
  expect_refused({"256"}, many);
}

/// The parameters that place a tensor in shared memory, as `tritonclient` sends them.
std::string place(std::uint32_t field, const std::string& region, std::uint64_t size,
                  std::uint64_t offset) {
  return parameter(field, "shared_memory_region", bytes(3, region)) +
         parameter(field, "shared_memory_byte_size", number(2, size)) +
         (offset > 0 ? parameter(field, "shared_memory_offset", number(2, offset)) : "");
}

TEST(infer_message, reads_places_in_shared_memory) {
  const auto message =
      parse(request_with(input("x", "UINT8", {3}, place(4, "r", 3, 9)) + input("y", "UINT8", {2}) +
                         input("z", "INT32", {1}, place(4, "r", 4, 0)) + bytes(7, "ab") +
                         bytes(6, bytes(1, "u") + place(2, "s", 5, 1)) + bytes(6, bytes(1, "v"))));
  const auto& inputs = message.request.inputs;
  ASSERT_TRUE(inputs[0].region);
  EXPECT_EQ(inputs[0].region->name, "r");
  EXPECT_EQ(inputs[0].region->offset, 9U);
  EXPECT_EQ(inputs[0].region->bytes, 3U);
  EXPECT_FALSE(inputs[0].is_binary);
  EXPECT_FALSE(inputs[1].region);
  EXPECT_TRUE(inputs[1].is_binary);
  ASSERT_TRUE(inputs[2].region);
  EXPECT_EQ(inputs[2].region->offset, 0U);
  ASSERT_TRUE(message.request.outputs[0].region);
  EXPECT_EQ(message.request.outputs[0].region->bytes, 5U);
  EXPECT_FALSE(message.request.outputs[1].region);
  EXPECT_TRUE(message.request.wants_binary_outputs);
  EXPECT_EQ(tensors_of(request_with(input("x", "UINT8", {3}, place(4, "r", 3, 9)) +
                                    input("y", "UINT8", {2}) + bytes(7, "ab")))[1],
            "ab");
  EXPECT_TRUE(parse(request_with(input("x", "UINT8", {3}, place(4, "r", 3, 9))))
                  .request.wants_binary_outputs);
  const auto typed = parse(request_with(input("x", "UINT8", {3}, place(4, "r", 3, 9)) +
                                        input("y", "UINT8", {1}, bytes(5, number(4, 7)))));
  EXPECT_FALSE(typed.request.wants_binary_outputs);
}

TEST(infer_message, refuses_places_that_contradict_themselves) {
  const auto region = parameter(4, "shared_memory_region", bytes(3, "r"));
  expect_refused({"input \"x\"", "shared_memory_byte_size is missing"},
                 input("x", "UINT8", {1}, region));
  expect_refused({"need a shared_memory_region"},
                 input("x", "UINT8", {1}, parameter(4, "shared_memory_offset", number(2, 0))));
  expect_refused({"shared_memory_byte_size is 2, but", "need 1 bytes"},
                 input("x", "UINT8", {1}, place(4, "r", 2, 0)));
  expect_refused(
      {"\"shared_memory_byte_size\" must be an integer"},
      input("x", "UINT8", {1},
            region + parameter(4, "shared_memory_byte_size", number(2, ~std::uint64_t{0}))));
  expect_refused({"\"shared_memory_region\" must be a string_param"},
                 input("x", "UINT8", {1}, parameter(4, "shared_memory_region", number(2, 1))));
  expect_refused({"contents beside shared_memory_region"},
                 input("x", "UINT8", {1}, place(4, "r", 1, 0) + bytes(5, number(4, 7))));
  expect_refused({"has 1 tensors", "has 0 inputs that are not in shared memory"},
                 input("x", "UINT8", {1}, place(4, "r", 1, 0)) + bytes(7, "a"));
  expect_refused({"output \"y\"", "shared_memory_byte_size is missing"},
                 bytes(6, bytes(1, "y") + parameter(2, "shared_memory_region", bytes(3, "r"))));
}

TEST(region_messages, are_those_of_the_protocol) {
  const auto text = bytes(1, "r") + bytes(2, "/k") + number(3, 7) + number(4, ~std::uint64_t{0});
  const wire_reader request{std::as_bytes(std::span(text))};
  const auto region = read_region_request(request);
  EXPECT_EQ(region.name, "r");
  EXPECT_EQ(region.key, "/k");
  EXPECT_EQ(region.offset, 7U);
  EXPECT_EQ(region.bytes, ~std::uint64_t{0});
  EXPECT_EQ(read_region_name(request), "r");
  EXPECT_EQ(read_region_name(wire_reader()), "");
  EXPECT_EQ(region_status_message(std::vector{region}), bytes(1, bytes(1, "r") + bytes(2, text)));
  EXPECT_EQ(region_status_message({}), "");
}

TEST(infer_message, does_not_serve_some_extensions) {
  constexpr auto status = request_status::unimplemented;
  expect_refused({"BYTES"}, input("x", "BYTES", {1}), status);
  expect_refused({"classification"},
                 bytes(6, bytes(1, "y") + parameter(2, "classification", number(2, 3))), status);
}

TEST(infer_message, keeps_the_id_of_a_request_that_is_refused) {
  infer_message message;
  const auto text = request_with(bytes(3, "7") + input("x", "FP9", {1}));
  EXPECT_THROW(parse_infer_message(wire_reader(std::as_bytes(std::span(text))), message),
               request_error);
  EXPECT_EQ(message.request.id, "7");
}

}  // namespace
}  // namespace sluice::service
