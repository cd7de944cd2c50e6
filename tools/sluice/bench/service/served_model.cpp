// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/service/served_model.hpp"

#include "service/protocol/tensor_size.hpp"
#include "tools/io/displayed.hpp"
#include "tools/sluice/bench/service/input_value.hpp"

#include <sluice/runtime/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <optional>

namespace sluice::cli {

namespace {

using nlohmann::json;

[[noreturn]] void refuse_argument(const std::string& why) {
  throw error(errc::invalid_argument, why);
}

/// A name in a path of HTTP.
std::string percent_encoded(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                          (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.' || c == '~';
    text += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return text;
}

std::string path_of(std::string_view model) {
  return "/v2/models/" + percent_encoded(model);
}

/// The fields of all requests.
std::string fields_of(const http_service& service) {
  return "Host: " + service.server.host + "\r\n" +
         (service.token.empty() ? "" : "Authorization: Bearer " + service.token + "\r\n");
}

/// What is requested for an input; null if nothing is.
template <class T>
const T* requested_for(const std::map<std::string, T>& requested, const std::string& name,
                       bool is_only) {
  auto found = requested.find(name);
  if (found == requested.end() && is_only) found = requested.find("");
  return found == requested.end() ? nullptr : &found->second;
}

/// Throws unless the model has the inputs of an option.
template <class T>
void require_inputs(const char* option, const std::map<std::string, T>& requested,
                    const json& inputs) {
  for (const auto& each : requested) {
    const auto& name = each.first;
    const bool is_known = std::any_of(inputs.begin(), inputs.end(),
                                      [&](const auto& x) { return x.at("name") == name; });
    if (!is_known && !(name.empty() && inputs.size() == 1))
      refuse_argument(fmt::format("{}: the model has no input '{}'", option, io::displayed(name)));
  }
}

/// The shape of an input, of which the model has `declared`.
std::vector<std::int64_t> chosen_shape(const std::string& name,
                                       const std::vector<std::int64_t>& declared,
                                       const std::vector<std::int64_t>* requested,
                                       std::int64_t batch) {
  if (requested != nullptr) {
    const auto fits = [](std::int64_t extent, std::int64_t free) {
      return free < 0 || extent == free;
    };
    if (!std::equal(requested->begin(), requested->end(), declared.begin(), declared.end(), fits)) {
      refuse_argument(fmt::format("--shape: {}: the model has the shape {}", io::displayed(name),
                                  fmt::join(declared, ",")));
    }
    return *requested;
  }
  auto shape = declared;
  if (!shape.empty() && shape.front() < 0) shape.front() = batch;
  if (std::any_of(shape.begin(), shape.end(), [](auto extent) { return extent < 0; })) {
    refuse_argument(fmt::format("--shape: {} needs one: the model has {}, where -1 is any extent",
                                io::displayed(name), fmt::join(declared, ",")));
  }
  return shape;
}

served_input input_of(const json& metadata, const requested_inputs& requested, bool is_only) {
  served_input input{.name = metadata.at("name").get<std::string>()};
  const auto type = metadata.at("datatype").get<std::string>();
  const auto known = service::datatype_from(type);
  if (!known)
    refuse_argument(fmt::format("--model: {} is of the type {}", io::displayed(input.name),
                                io::displayed(type)));
  input.type = *known;
  input.shape = chosen_shape(input.name, metadata.at("shape").get<std::vector<std::int64_t>>(),
                             requested_for(requested.shapes, input.name, is_only), requested.batch);
  if (const auto* value = requested_for(requested.values, input.name, is_only)) {
    input.element =
        element_bytes(fmt::format("--value: {}", io::displayed(input.name)), *value, input.type);
  }
  const auto bytes = service::tensor_bytes(input.shape, input.type);
  constexpr std::uint64_t most_bytes = std::uint64_t{1} << 32;
  if (!bytes || *bytes > most_bytes)
    refuse_argument(fmt::format("--shape: {} is larger than 4 GiB", io::displayed(input.name)));
  input.bytes = *bytes;
  return input;
}

/// The bytes of an element.
template <class T>
void append_element(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// A random f16 of a magnitude below 1: any sign and fraction, and one of the upper exponents.
std::uint16_t random_half(std::mt19937_64& source) {
  constexpr std::uint64_t sign_and_fraction = 0x83ff;
  const auto bits = source();
  const auto exponent = std::uint64_t{11} + (bits >> 32) % 4;
  return static_cast<std::uint16_t>((bits & sign_and_fraction) | exponent << 10);
}

void append_random(std::string& bytes, service::datatype type, std::mt19937_64& source) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  switch (type) {
    case service::datatype::fp64:
      return append_element(bytes, double{uniform(source)});
    case service::datatype::fp32:
      return append_element(bytes, uniform(source));
    case service::datatype::fp16:
      return append_element(bytes, random_half(source));
    case service::datatype::bf16: {
      // The upper half of a float.
      const float value = uniform(source);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      return append_element(bytes, static_cast<std::uint16_t>(bits >> 16));
    }
    default: {
      // An integer, little-endian.
      bytes += static_cast<char>(source() & 1);
      bytes.append(service::size_of(type) - 1, '\0');
    }
  }
}

}  // namespace

std::string served_model::inputs_text() const {
  std::vector<std::string> texts;
  for (const auto& input : inputs) {
    const auto shape = input.shape.empty() ? "()" : fmt::format("{}", fmt::join(input.shape, "x"));
    texts.push_back(
        fmt::format("{} {} {}", io::displayed(input.name), shape, service::to_string(input.type)));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

served_model describe_model(const http_service& service, const std::string& name,
                            const requested_inputs& requested) {
  const auto reply = call_http(
      service.server, "GET " + path_of(name) + " HTTP/1.1\r\n" + fields_of(service) + "\r\n");
  if (reply.head.status != 200) {
    // 404 is a wrong argument; a token that is missing is one, too.
    const bool is_argument = reply.head.status >= 400 && reply.head.status < 500;
    throw error(is_argument ? errc::invalid_argument : errc::library_failure,
                fmt::format("--model: {}: {}", io::displayed(name),
                            http_error_text(reply.head.status, reply.body)));
  }
  served_model model{.name = name};
  try {
    const auto metadata = json::parse(reply.body);
    const auto& inputs = metadata.at("inputs");
    require_inputs("--shape", requested.shapes, inputs);
    require_inputs("--value", requested.values, inputs);
    for (const auto& input : inputs)
      model.inputs.push_back(input_of(input, requested, inputs.size() == 1));
  } catch (const json::exception& e) {
    throw error(errc::library_failure, fmt::format("--model: {}: the metadata: {}",
                                                   io::displayed(name), io::displayed(e.what())));
  }
  for (const auto& input : model.inputs) model.bytes += input.bytes;
  return model;
}

std::vector<std::string> random_inputs(const served_model& model, std::mt19937_64& source) {
  std::vector<std::string> inputs;
  for (const auto& input : model.inputs) {
    auto& bytes = inputs.emplace_back();
    bytes.reserve(input.bytes);
    while (bytes.size() < input.bytes) {
      if (input.element.empty()) {
        append_random(bytes, input.type, source);
      } else {
        bytes += input.element;
      }
    }
  }
  return inputs;
}

std::string http_request(const http_service& service, const served_model& model,
                         const std::vector<std::string>& inputs) {
  auto tensors = json::array();
  for (const auto& input : model.inputs) {
    tensors.push_back({{"name", input.name},
                       {"datatype", service::to_string(input.type)},
                       {"shape", input.shape},
                       {"parameters", {{"binary_data_size", input.bytes}}}});
  }
  const auto text =
      json{{"inputs", tensors}, {"parameters", {{"binary_data_output", true}}}}.dump();
  auto request = fmt::format(
      "POST {}/infer HTTP/1.1\r\n{}Inference-Header-Content-Length: {}\r\nContent-Length: "
      "{}\r\n\r\n",
      path_of(model.name), fields_of(service), text.size(), text.size() + model.bytes);
  request.reserve(request.size() + text.size() + model.bytes);
  request += text;
  for (const auto& bytes : inputs) request += bytes;
  return request;
}

}  // namespace sluice::cli
