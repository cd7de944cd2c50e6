// SPDX-License-Identifier: Apache-2.0
// The reader of infer requests. What it accepts has the elements that a document tree has, and a
// reply with them reads back. And the reader of requests to register shared memory.
#include "service/protocol/inference_json.hpp"
#include "service/protocol/json_elements.hpp"
#include "service/protocol/narrow_float.hpp"
#include "service/protocol/region_json.hpp"
#include "service/protocol/reply_json.hpp"
#include "service/protocol/request_error.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace sluice::fuzz {
namespace {

using namespace service;
using nlohmann::json;

/// The value of `read`, or nothing if it refuses the input with an error of the client that is one
/// line and a valid reply.
template <class Read>
[[nodiscard]] std::optional<std::invoke_result_t<Read>> answered(Read read) {
  try {
    return read();
  } catch (const request_error& refusal) {
    const std::string_view text = refusal.what();
    require(refusal.status() == request_status::invalid_argument ||
                refusal.status() == request_status::unimplemented,
            "a refusal is the fault of the client");
    require(
        text.starts_with("request: ") || text.starts_with("input ") || text.starts_with("output "),
        "a refusal names the field");
    require(std::all_of(text.begin(), text.end(),
                        [](char c) { return static_cast<unsigned char>(c) >= ' '; }),
            "a refusal is one line");
    require(json::parse(error_json(text)).at("error").is_string(), "an error is a valid reply");
    return std::nullopt;
  }
}

void append_flat(std::vector<json>& elements, const json& data) {
  if (!data.is_array()) return elements.push_back(data);
  for (const auto& item : data) append_flat(elements, item);
}

template <class T>
[[nodiscard]] T element_at(const std::vector<std::byte>& bytes, std::size_t index) {
  T value{};
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

/// Whether `value` is at most half a step of its format from a number. Steps are `2 * relative`,
/// and `2 * absolute` below the normal numbers.
[[nodiscard]] bool is_near(double number, double value, double relative, double absolute) {
  return std::fabs(number - value) <= std::fabs(number) * relative + absolute;
}

[[nodiscard]] bool is_element(const json& item, datatype type, const std::vector<std::byte>& bytes,
                              std::size_t index) {
  switch (type) {
    case datatype::boolean:
      return item == (element_at<std::uint8_t>(bytes, index) != 0);
    case datatype::uint8:
      return item == element_at<std::uint8_t>(bytes, index);
    case datatype::uint16:
      return item == element_at<std::uint16_t>(bytes, index);
    case datatype::uint32:
      return item == element_at<std::uint32_t>(bytes, index);
    case datatype::uint64:
      return item == element_at<std::uint64_t>(bytes, index);
    case datatype::int8:
      return item == element_at<std::int8_t>(bytes, index);
    case datatype::int16:
      return item == element_at<std::int16_t>(bytes, index);
    case datatype::int32:
      return item == element_at<std::int32_t>(bytes, index);
    case datatype::int64:
      return item == element_at<std::int64_t>(bytes, index);
    case datatype::fp16:
      return is_near(item.get<double>(), from_fp16(element_at<std::uint16_t>(bytes, index)),
                     0x1p-11, 0x1p-25);
    case datatype::fp32:
      return is_near(item.get<double>(), element_at<float>(bytes, index), 0x1p-24, 0x1p-150);
    case datatype::fp64:
      return item.get<double>() == element_at<double>(bytes, index);
    case datatype::bf16:
      return is_near(item.get<double>(), from_bf16(element_at<std::uint16_t>(bytes, index)), 0x1p-8,
                     0x1p-134);
  }
  return false;
}

/// Repeats the request with the elements as the writer prints them.
void check_round_trip(const inference_request& request,
                      const std::vector<std::vector<std::byte>>& memory) {
  std::vector<reply_output> outputs;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const auto& input = request.inputs[i];
    if (memory[i].size() != input.bytes) continue;
    outputs.push_back({.name = input.name,
                       .type = input.type,
                       .shape = input.shape,
                       .bytes = memory[i],
                       .region = input.region ? &*input.region : nullptr});
  }
  auto reply = json::parse(
      inference_reply_json({.model = request.id, .version = "1", .id = request.id}, outputs));
  require(reply.at("model_name") == request.id, "strings are written as they were read");
  const auto text = json{{"inputs", reply.at("outputs")}}.dump();
  const auto again = parse_inference_request(text, 0);
  require(again.inputs.size() == outputs.size(), "all outputs are written");
  std::vector<std::vector<std::byte>> copies;
  for (const auto& input : again.inputs) copies.emplace_back(input.bytes);
  const std::vector<std::span<std::byte>> tensors(copies.begin(), copies.end());
  read_json_elements(text, again, tensors);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    require(again.inputs[i].name == outputs[i].name, "names are written as they were read");
    require(again.inputs[i].type == outputs[i].type, "types are written as they were read");
    const auto& region = again.inputs[i].region;
    require(region.has_value() == (outputs[i].region != nullptr), "regions are written");
    if (region) {
      require(region->name == outputs[i].region->name &&
                  region->offset == outputs[i].region->offset &&
                  region->bytes == outputs[i].region->bytes,
              "regions are written as they were read");
      continue;
    }
    require(std::equal(copies[i].begin(), copies[i].end(), outputs[i].bytes.begin(),
                       outputs[i].bytes.end()),
            "elements are written as they were read");
  }
}

void check(std::string_view text) {
  const auto request = answered([&] { return parse_inference_request(text, std::nullopt); });
  if (!request) return;
  const auto document = json::parse(text);
  require(document.at("inputs").size() == request->inputs.size(), "all inputs are read");
  require(
      answered([&] { return parse_inference_request(text, binary_bytes(*request)); }).has_value(),
      "the body has the size that the request states");

  std::vector<std::vector<std::byte>> memory;
  for (const auto& input : request->inputs) {
    require(!input.is_in_text() || input.bytes / 8 <= text.size(), "elements come from the text");
    require(!input.region || input.region->bytes == input.bytes, "a region has the whole tensor");
    const bool is_kept = input.is_in_text() || (input.region && input.bytes <= 4096);
    memory.emplace_back(is_kept ? input.bytes : 0);
  }
  const std::vector<std::span<std::byte>> tensors(memory.begin(), memory.end());
  const auto is_read = answered([&] {
    read_json_elements(text, *request, tensors);
    return true;
  });
  if (!is_read) return;

  for (std::size_t i = 0; i < memory.size(); ++i) {
    const auto& input = request->inputs[i];
    const auto& item = document.at("inputs").at(i);
    require(item.at("name") == input.name && item.at("shape") == json(input.shape) &&
                item.at("datatype") == to_string(input.type),
            "fields are read as they stand in the text");
    if (!input.is_in_text()) continue;
    std::vector<json> elements;
    append_flat(elements, item.at("data"));
    require(elements.size() * size_of(input.type) == input.bytes, "elements fill the memory");
    for (std::size_t k = 0; k < elements.size(); ++k) {
      require(is_element(elements[k], input.type, memory[i], k),
              "elements are read as they stand in the text");
    }
  }
  check_round_trip(*request, memory);
}

void check_registration(std::string_view text) {
  const auto region = answered([&] { return parse_region_request(text); });
  if (!region) return;
  const auto document = json::parse(text);
  require(document.at("key") == region->key && document.at("byte_size") == region->bytes &&
              document.value("offset", std::uint64_t{0}) == region->offset,
          "fields are read as they stand in the text");
  const std::vector regions{*region, *region};
  const auto status = json::parse(region_status_json(regions));
  require(status.at(1).at("key") == region->key && status.at(1).at("byte_size") == region->bytes &&
              status.at(1).at("offset") == region->offset,
          "the status says what was registered");
}

}  // namespace
}  // namespace sluice::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  sluice::fuzz::check(text);
  sluice::fuzz::check_registration(text);
  // Any bytes are a message.
  const auto error = nlohmann::json::parse(sluice::service::error_json(text));
  sluice::fuzz::require(error.at("error").is_string(), "an error is a valid reply");
  return 0;
}
