// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/repository_json.hpp"

#include "service/protocol/json_string.hpp"
#include "service/protocol/repository_parameters.hpp"
#include "service/protocol/request_error.hpp"

#include <nlohmann/json.hpp>

namespace sluice::service {
namespace {

[[noreturn]] void refuse_request(const std::string& message) {
  throw request_error(request_status::invalid_argument, message);
}

/// The object of a request; of an empty text, an empty one.
[[nodiscard]] nlohmann::json object_of(std::string_view text) {
  if (text.empty()) return nlohmann::json::object();
  auto object = nlohmann::json::parse(text, nullptr, false);
  if (!object.is_object()) refuse_request("the body of the request is no JSON object");
  return object;
}

[[nodiscard]] nlohmann::json parameters_of(std::string_view text) {
  const auto object = object_of(text);
  const auto found = object.find("parameters");
  if (found == object.end()) return nlohmann::json::object();
  if (!found->is_object()) refuse_request("parameters is no object");
  return *found;
}

}  // namespace

index_request parse_index_request(std::string_view text) {
  const auto object = object_of(text);
  const auto ready = object.find("ready");
  if (ready == object.end()) return {};
  if (!ready->is_boolean()) refuse_request("ready is no Boolean");
  return {.only_ready = ready->get<bool>()};
}

void check_load_request(std::string_view text) {
  const auto parameters = parameters_of(text);
  if (!parameters.empty()) refuse_load_parameter(parameters.begin().key());
}

void check_unload_request(std::string_view text) {
  const auto parameters = parameters_of(text);
  for (const auto& [name, value] : parameters.items()) {
    check_unload_parameter(name, value.is_boolean());
  }
}

std::string repository_index_json(std::span<const repository_entry> entries,
                                  const index_request& request) {
  std::string text = "[";
  const auto append = [&text](std::string_view key, std::string_view value) {
    text.append(text.back() == '{' ? "\"" : ",\"").append(key).append("\":");
    append_json_string(text, value);
  };
  for (const auto& entry : entries) {
    if (request.only_ready && entry.state != serving_state::ready) continue;
    text += text.back() == '[' ? "{" : ",{";
    append("name", entry.model);
    if (!entry.version.empty()) append("version", entry.version);
    append("state", to_string(entry.state));
    if (!entry.reason.empty()) append("reason", entry.reason);
    text += '}';
  }
  return text += ']';
}

}  // namespace sluice::service
