// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/json_elements.hpp"

#include "service/protocol/inference_json.hpp"
#include "service/protocol/narrow_float.hpp"
#include "tests/service/protocol/request_text.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace sluice::service {
namespace {

using bytes = std::vector<std::byte>;
using status = request_status;

/// The elements of all inputs of a text. Canaries show writes outside of the spans.
[[nodiscard]] std::vector<bytes> read_all(const std::string& text) {
  constexpr std::size_t margin = 16;
  constexpr std::byte canary{0xa5};
  const auto request = parse_inference_request(text, std::nullopt);
  std::vector<bytes> memory;
  std::vector<std::span<std::byte>> tensors;
  for (const auto& input : request.inputs) {
    memory.emplace_back(input.bytes + 2 * margin, canary);
  }
  for (auto& block : memory) {
    tensors.push_back(std::span(block).subspan(margin, block.size() - 2 * margin));
  }
  read_json_elements(text, request, tensors);
  std::vector<bytes> elements;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const auto is_canary = [&](std::byte b) {
      return b == canary;
    };
    EXPECT_TRUE(std::all_of(memory[i].begin(), memory[i].begin() + margin, is_canary));
    EXPECT_TRUE(std::all_of(memory[i].end() - margin, memory[i].end(), is_canary));
    elements.emplace_back(tensors[i].begin(), tensors[i].end());
  }
  return elements;
}

template <class T>
[[nodiscard]] std::vector<T> values_of(const bytes& elements) {
  std::vector<T> values(elements.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), elements.data(), elements.size());
  return values;
}

template <class T>
[[nodiscard]] std::vector<T> read(std::string_view type, std::string_view shape,
                                  std::string_view data) {
  return values_of<T>(read_all(request_with(type, shape, data)).at(0));
}

template <class T>
using list = std::vector<T>;

TEST(json_elements, reads_the_limits_of_integers) {
  EXPECT_EQ(read<std::uint8_t>("UINT8", "[2]", "[0,255]"), (list<std::uint8_t>{0, 255}));
  EXPECT_EQ(read<std::int8_t>("INT8", "[2]", "[-128,127]"), (list<std::int8_t>{-128, 127}));
  EXPECT_EQ(read<std::uint16_t>("UINT16", "[1]", "[65535]"), (list<std::uint16_t>{65535}));
  EXPECT_EQ(read<std::int16_t>("INT16", "[1]", "[-32768]"), (list<std::int16_t>{-32768}));
  EXPECT_EQ(read<std::uint32_t>("UINT32", "[1]", "[4294967295]"),
            (list<std::uint32_t>{4294967295}));
  EXPECT_EQ(read<std::int32_t>("INT32", "[1]", "[-2147483648]"),
            (list<std::int32_t>{std::numeric_limits<std::int32_t>::min()}));
  EXPECT_EQ(read<std::uint64_t>("UINT64", "[2]", "[18446744073709551615,9007199254740993]"),
            (list<std::uint64_t>{std::numeric_limits<std::uint64_t>::max(), 9007199254740993}));
  EXPECT_EQ(read<std::int64_t>("INT64", "[3]",
                               "[-9223372036854775808,9223372036854775807,-9007199254740993]"),
            (list<std::int64_t>{std::numeric_limits<std::int64_t>::min(),
                                std::numeric_limits<std::int64_t>::max(), -9007199254740993}));
}

TEST(json_elements, reads_booleans) {
  EXPECT_EQ(read<std::uint8_t>("BOOL", "[3]", "[true,false,true]"), (list<std::uint8_t>{1, 0, 1}));
}

TEST(json_elements, rounds_to_the_nearest_fp32) {
  EXPECT_EQ(read<float>("FP32", "[6]", "[1,-2.5,1e-3,3.4028235e38,1e-50,-0.0]"),
            (list<float>{1.0F, -2.5F, 1e-3F, 3.4028235e38F, 0.0F, -0.0F}));
  // The nearest double of this number lies between two values of FP32, and ties to the lower one.
  EXPECT_EQ(read<float>("FP32", "[1]", "[1.000000059604644775390626]"),
            (list<float>{std::nextafter(1.0F, 2.0F)}));
  EXPECT_EQ(read<float>("FP32", "[1]", "[1.000000059604644775390625]"), (list<float>{1.0F}));
  EXPECT_EQ(read<float>("FP32", "[1]", "[16777217]"), (list<float>{16777216.0F}));
  EXPECT_EQ(read<double>("FP64", "[3]", "[0.1,18446744073709551616,5e-324]"),
            (list<double>{0.1, 18446744073709551616.0, 5e-324}));
}

TEST(json_elements, keeps_the_sign_of_zero) {
  for (const std::string_view data : {"[-0,0]", "[-0.0,0.0]"}) {
    EXPECT_EQ(read<std::uint16_t>("FP16", "[2]", data), (list<std::uint16_t>{0x8000, 0}));
    EXPECT_EQ(read<std::uint16_t>("BF16", "[2]", data), (list<std::uint16_t>{0x8000, 0}));
    EXPECT_EQ(read<std::uint32_t>("FP32", "[2]", data), (list<std::uint32_t>{0x80000000, 0}));
    EXPECT_EQ(read<std::uint64_t>("FP64", "[2]", data),
              (list<std::uint64_t>{std::uint64_t{1} << 63, 0}));
  }
  EXPECT_EQ(read<std::uint8_t>("UINT8", "[1]", "[-0]"), (list<std::uint8_t>{0}));
}

TEST(json_elements, rounds_narrow_floats_to_even) {
  EXPECT_EQ(read<std::uint16_t>("FP16", "[4]", "[1,2049,2051,-65504]"),
            (list<std::uint16_t>{0x3c00, 0x6800, 0x6802, 0xfbff}));
  EXPECT_EQ(read<std::uint16_t>("BF16", "[4]", "[1,257,259,-0.0]"),
            (list<std::uint16_t>{0x3f80, 0x4380, 0x4382, 0x8000}));
}

TEST(json_elements, reads_nested_arrays) {
  const list<std::int32_t> expected{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(read<std::int32_t>("INT32", "[2,3]", "[1,2,3,4,5,6]"), expected);
  EXPECT_EQ(read<std::int32_t>("INT32", "[2,3]", "[[1,2,3],[4,5,6]]"), expected);
  EXPECT_EQ(read<std::int32_t>("INT32", "[1,3,2,1]", "[[[[1],[2]],[[3],[4]],[[5],[6]]]]"),
            expected);
  EXPECT_EQ(read<std::int32_t>("INT32", "[2,0]", "[[],[]]"), list<std::int32_t>{});
  EXPECT_EQ(read<std::int32_t>("INT32", "[2,0]", "[]"), list<std::int32_t>{});
  EXPECT_EQ(read<std::int32_t>("INT32", "[1,1,1,1,1,1,1,1]", "[[[[[[[[7]]]]]]]]"),
            list<std::int32_t>{7});
}

struct element_refusal {
  std::string_view type;
  std::string_view shape;
  std::string_view data;
  std::string_view part;  ///< of the message
};

void PrintTo(const element_refusal& r, std::ostream* stream) {
  *stream << r.type << ' ' << r.shape << ' ' << r.data;
}

class json_elements_refusal : public ::testing::TestWithParam<element_refusal> {};

TEST_P(json_elements_refusal, names_the_input) {
  const auto& [type, shape, data, part] = GetParam();
  const auto text = request_with(type, shape, data);
  expect_refusal([&] { return read_all(text); }, status::invalid_argument, "input \"x\": ");
  expect_refusal([&] { return read_all(text); }, status::invalid_argument, part);
}

INSTANTIATE_TEST_SUITE_P(
    values, json_elements_refusal,
    ::testing::Values(
        element_refusal{"UINT8", "[2]", "[1,300]", "element 1 is out of the range of UINT8"},
        element_refusal{"UINT8", "[1]", "[-1]", "out of the range of UINT8"},
        element_refusal{"INT8", "[1]", "[128]", "out of the range of INT8"},
        element_refusal{"INT8", "[1]", "[-129]", "out of the range of INT8"},
        element_refusal{"UINT16", "[1]", "[65536]", "out of the range of UINT16"},
        element_refusal{"UINT32", "[1]", "[-1]", "out of the range of UINT32"},
        element_refusal{"INT32", "[1]", "[2147483648]", "out of the range of INT32"},
        element_refusal{"INT32", "[1]", "[1.5]", "element 0 is not an integer"},
        element_refusal{"INT32", "[1]", "[1.0]", "not an integer"},
        element_refusal{"INT32", "[1]", "[1e2]", "not an integer"},
        element_refusal{"INT32", "[1]", "[true]", "not an integer"},
        element_refusal{"INT32", "[1]", "[null]", "not an integer"},
        element_refusal{"INT32", "[1]", R"(["1"])", "not an integer"},
        element_refusal{"INT64", "[1]", "[9223372036854775808]", "out of the range of INT64"},
        element_refusal{"INT64", "[1]", "[-9223372036854775809]", "out of the range of INT64"},
        element_refusal{"UINT64", "[1]", "[18446744073709551616]", "out of the range of UINT64"},
        element_refusal{"UINT64", "[1]", "[-1]", "out of the range of UINT64"},
        element_refusal{"BOOL", "[1]", "[1]", "neither true nor false"},
        element_refusal{"BOOL", "[1]", "[0]", "neither true nor false"},
        element_refusal{"BOOL", "[1]", R"(["true"])", "neither true nor false"},
        element_refusal{"FP32", "[1]", "[1e39]", "out of the range of FP32"},
        element_refusal{"FP32", "[1]", "[false]", "not a number"},
        element_refusal{"FP32", "[1]", R"(["NaN"])", "not a number"},
        element_refusal{"FP64", "[1]", "[null]", "not a number"},
        element_refusal{"FP16", "[1]", "[65520]", "out of the range of FP16"},
        element_refusal{"FP16", "[1]", "[-1e300]", "out of the range of FP16"},
        element_refusal{"BF16", "[1]", "[3.4e38]", "out of the range of BF16"},
        element_refusal{"BF16", "[1]", R"([""])", "not a number"}));

INSTANTIATE_TEST_SUITE_P(
    shapes, json_elements_refusal,
    ::testing::Values(element_refusal{"INT32", "[2,3]", "[[1,2],[3,4],[5,6]]",
                                      "nested as the shape"},
                      element_refusal{"INT32", "[2,2]", "[[1,2,3],[4]]", "nested as the shape"},
                      element_refusal{"INT32", "[2,2]", "[[1,2,3,4]]", "nested as the shape"},
                      element_refusal{"INT32", "[2,2]", "[[1,2],3,4]", "nested as the shape"},
                      element_refusal{"INT32", "[2,2]", "[1,[2,3],4]", "nested as the shape"},
                      element_refusal{"INT32", "[1,2,2]", "[[1,2],[3,4]]", "nested as the shape"},
                      element_refusal{"INT32", "[2]", "[[1,2]]", "nested as the shape"},
                      element_refusal{"INT32", "[2]", "[[1],[2]]", "nested as the shape"},
                      element_refusal{"INT32", "[]", "[[1]]", "nested as the shape"},
                      element_refusal{"INT32", "[2,1]", "[[[1]],[[2]]]", "nested as the shape"},
                      element_refusal{"INT32", "[2,0]", "[[]]", "nested as the shape"},
                      element_refusal{"INT32", "[0,2]", "[[]]", "nested as the shape"},
                      element_refusal{"INT32", "[0]", "[[]]", "nested as the shape"}));

TEST(json_elements, does_not_touch_binary_inputs) {
  const std::string text = R"({"outputs":[{"name":"y","data":[9]}],"inputs":[
    {"name":"a","shape":[1],"datatype":"INT8","parameters":{"binary_data_size":1}},
    {"unknown":[[7]],"data":[5],"name":"x","shape":[1],"datatype":"INT8",
     "parameters":{"data":[6]}}],"data":[8]})";
  const auto request = parse_inference_request(text, 1);
  std::vector<std::byte> x(1);
  const std::vector<std::span<std::byte>> tensors{{}, x};
  read_json_elements(text, request, tensors);
  EXPECT_EQ(x, (bytes{std::byte{5}}));
}

TEST(json_elements, refuses_memory_that_does_not_fit) {
  const auto text = request_with("INT32", "[2]", "[1,2]");
  const auto request = parse_inference_request(text, 0);
  std::vector<std::byte> memory(9);
  const auto read_into = [&](std::size_t size, const std::string& json) {
    const std::vector<std::span<std::byte>> tensors{std::span(memory).first(size)};
    read_json_elements(json, request, tensors);
    return 0;
  };
  EXPECT_EQ(read_into(8, text), 0);
  expect_refusal([&] { return read_into(7, text); }, status::internal, "do not fit");
  expect_refusal([&] { return read_into(9, text); }, status::internal, "do not fit");
  expect_refusal([&] { return read_into(8, R"({"inputs":[]})"); }, status::internal, "do not fit");
  expect_refusal([&] { return read_into(8, request_with("INT32", "[2]", "[1]")); },
                 status::internal, "do not fit");
  expect_refusal([&] { return read_into(8, request_with("INT32", "[2]", "[1,2,3]")); },
                 status::invalid_argument, "nested as the shape");
}

// Random tensors, written by an independent writer.

constexpr std::array types{datatype::boolean, datatype::uint8, datatype::uint16, datatype::uint32,
                           datatype::uint64,  datatype::int8,  datatype::int16,  datatype::int32,
                           datatype::int64,   datatype::fp16,  datatype::fp32,   datatype::fp64,
                           datatype::bf16};

template <class T>
[[nodiscard]] T element_at(const bytes& elements, std::size_t index) {
  T value{};
  std::memcpy(&value, elements.data() + index * sizeof value, sizeof value);
  return value;
}

[[nodiscard]] nlohmann::json json_of(datatype type, const bytes& elements, std::size_t index) {
  switch (type) {
    case datatype::boolean:
      return element_at<std::uint8_t>(elements, index) != 0;
    case datatype::uint8:
      return element_at<std::uint8_t>(elements, index);
    case datatype::uint16:
      return element_at<std::uint16_t>(elements, index);
    case datatype::uint32:
      return element_at<std::uint32_t>(elements, index);
    case datatype::uint64:
      return element_at<std::uint64_t>(elements, index);
    case datatype::int8:
      return element_at<std::int8_t>(elements, index);
    case datatype::int16:
      return element_at<std::int16_t>(elements, index);
    case datatype::int32:
      return element_at<std::int32_t>(elements, index);
    case datatype::int64:
      return element_at<std::int64_t>(elements, index);
    case datatype::fp16:
      return from_fp16(element_at<std::uint16_t>(elements, index));
    case datatype::fp32:
      return element_at<float>(elements, index);
    case datatype::fp64:
      return element_at<double>(elements, index);
    case datatype::bf16:
      return from_bf16(element_at<std::uint16_t>(elements, index));
  }
  return nullptr;
}

/// Random bits that are finite elements.
[[nodiscard]] bytes random_elements(std::mt19937_64& generator, datatype type, std::size_t count) {
  bytes elements(count * size_of(type));
  for (auto& b : elements) b = static_cast<std::byte>(generator());
  for (std::size_t i = 0; i < count; ++i) {
    auto* element = elements.data() + i * size_of(type);
    if (type == datatype::boolean) *element &= std::byte{1};
    // A zero in the highest bit of the exponent.
    if (type == datatype::fp16 || type == datatype::bf16) element[1] &= std::byte{0xbf};
    if (type == datatype::fp32) element[3] &= std::byte{0xbf};
    if (type == datatype::fp64) element[7] &= std::byte{0xbf};
  }
  return elements;
}

[[nodiscard]] nlohmann::json nested(datatype type, const bytes& elements,
                                    std::span<const std::int64_t> shape, std::size_t& index) {
  if (shape.empty()) return json_of(type, elements, index++);
  auto array = nlohmann::json::array();
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    array.push_back(nested(type, elements, shape.subspan(1), index));
  }
  return array;
}

TEST(json_elements, reads_random_requests_of_an_independent_writer) {
  auto generator = test::make_generator();
  const auto below = [&](std::size_t n) {
    return static_cast<std::size_t>(generator() % n);
  };
  for (int round = 0; round < 300; ++round) {
    nlohmann::ordered_json document;
    std::vector<bytes> expected;
    auto inputs = nlohmann::ordered_json::array();
    std::uint64_t binary = 0;
    for (std::size_t i = 0, n = below(4); i < n; ++i) {
      const datatype type = types[below(types.size())];
      std::vector<std::int64_t> shape(below(5));
      std::size_t count = 1;
      for (auto& extent : shape) {
        extent = static_cast<std::int64_t>(below(5));
        count *= static_cast<std::size_t>(extent);
      }
      std::vector<std::pair<std::string, nlohmann::json>> fields{
          {"name", "x" + std::to_string(i)},
          {"datatype", std::string(to_string(type))},
          {"shape", shape},
          {"unknown", {{"data", {1, "a"}}}}};
      auto elements = random_elements(generator, type, count);
      if (below(3) == 0) {
        fields.emplace_back("parameters",
                            nlohmann::json{{"binary_data_size", elements.size()}, {"data", {1}}});
        binary += elements.size();
        elements.assign(elements.size(), std::byte{0xa5});  // not touched
      } else {
        std::size_t index = 0;
        auto flat = nlohmann::json::array();
        for (std::size_t k = 0; k < count; ++k) flat.push_back(json_of(type, elements, k));
        const bool is_flat = shape.empty() || below(2) == 0;
        fields.emplace_back("data", is_flat ? flat : nested(type, elements, shape, index));
      }
      std::shuffle(fields.begin(), fields.end(), generator);
      nlohmann::ordered_json input;
      for (const auto& f : fields) input[f.first] = f.second;
      inputs.push_back(input);
      expected.push_back(elements);
    }
    document["inputs"] = inputs;
    const auto text = document.dump(below(2) == 0 ? -1 : 1);
    SCOPED_TRACE(text);
    EXPECT_EQ(binary_bytes(parse_inference_request(text, binary)), binary);
    ASSERT_EQ(read_all(text), expected);
  }
}

TEST(json_elements, writes_what_reads_back_exactly) {
  auto generator = test::make_generator();
  for (const datatype type : types) {
    for (int round = 0; round < 50; ++round) {
      const auto count = static_cast<std::size_t>(generator() % 40);
      const auto elements = random_elements(generator, type, count);
      std::string text;
      ASSERT_TRUE(append_json_elements(text, type, elements));
      SCOPED_TRACE(text);
      const auto document = nlohmann::json::parse(text);
      ASSERT_EQ(document.size(), count);
      for (std::size_t i = 0; i < count; ++i) {
        const auto expected = json_of(type, elements, i);
        if (type == datatype::fp32 || type == datatype::fp16 || type == datatype::bf16) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(document[i].get<float>()),
                    std::bit_cast<std::uint32_t>(expected.get<float>()));
        } else if (type == datatype::fp64) {
          ASSERT_EQ(std::bit_cast<std::uint64_t>(document[i].get<double>()),
                    std::bit_cast<std::uint64_t>(expected.get<double>()));
        } else {
          ASSERT_EQ(document[i], expected);
        }
      }
      const auto shape = "[" + std::to_string(count) + "]";
      ASSERT_EQ(read_all(request_with(to_string(type), shape, text)).at(0), elements);
    }
  }
}

template <class T>
[[nodiscard]] std::string written(datatype type, const std::vector<T>& values) {
  std::string text;
  EXPECT_TRUE(append_json_elements(text, type, std::as_bytes(std::span(values))));
  return text;
}

TEST(json_elements, writes_short_numbers) {
  EXPECT_EQ(written<float>(datatype::fp32, {0.1F, 1.0F, -0.0F, 1e20F, 16777216.0F}),
            "[0.1,1.0,-0.0,1e+20,16777216.0]");
  EXPECT_EQ(written<double>(datatype::fp64, {0.1, 5e-324}), "[0.1,5e-324]");
  EXPECT_EQ(written<std::uint16_t>(datatype::fp16, {0x3c00, 0x8001}), "[1.0,-5.9604645e-08]");
  EXPECT_EQ(written<std::int8_t>(datatype::int8, {-128, 65}), "[-128,65]");
  EXPECT_EQ(written<std::uint8_t>(datatype::boolean, {0, 1, 2}), "[false,true,true]");
  EXPECT_EQ(written<std::int64_t>(datatype::int64, {}), "[]");
}

TEST(json_elements, cannot_write_numbers_that_are_not_finite) {
  std::string text;
  const auto is_written = [&](datatype type, const auto& value) {
    return append_json_elements(text, type, std::as_bytes(std::span(&value, 1)));
  };
  EXPECT_FALSE(is_written(datatype::fp32, std::numeric_limits<float>::quiet_NaN()));
  EXPECT_FALSE(is_written(datatype::fp64, -std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(is_written(datatype::fp16, std::uint16_t{0x7c00}));
  EXPECT_FALSE(is_written(datatype::bf16, std::uint16_t{0xff81}));
}

}  // namespace
}  // namespace sluice::service
