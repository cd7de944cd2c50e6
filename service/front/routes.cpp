// SPDX-License-Identifier: Apache-2.0
#include "service/front/routes.hpp"

#include "service/arena/utf8_text.hpp"
#include "service/front/http_error.hpp"

#include <array>
#include <optional>
#include <span>

namespace sluice::service {
namespace {

constexpr std::size_t most_parts = 6;  // v2/models/NAME/versions/VERSION/infer

[[noreturn]] void refuse_path() {
  throw http_error(404, "there is no such path");
}

[[nodiscard]] unsigned hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  throw http_error(400, "the path has a % without two hexadecimal digits");
}

[[nodiscard]] std::string decode(std::string_view part) {
  std::string text;
  text.reserve(part.size());
  for (std::size_t i = 0; i < part.size(); ++i) {
    char c = part[i];
    if (c == '%') {
      if (part.size() - i < 3)
        throw http_error(400, "the path has a % without two hexadecimal digits");
      c = static_cast<char>(hex_digit(part[i + 1]) * 16 + hex_digit(part[i + 2]));
      i += 2;
    }
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) {
      throw http_error(400, "the path has a control character");
    }
    text.push_back(c);
  }
  if (text.empty()) refuse_path();
  if (!is_utf8(text)) throw http_error(400, "the path is not UTF-8");
  return text;
}

/// The route below /v2/models/NAME, with or without a version.
[[nodiscard]] endpoint model_endpoint(std::span<const std::string_view> parts) {
  if (parts.empty()) return endpoint::model_metadata;
  if (parts.size() == 1 && parts[0] == "ready") return endpoint::model_ready;
  if (parts.size() == 1 && parts[0] == "infer") return endpoint::infer;
  if (parts.size() == 1 && parts[0] == "config") return endpoint::model_config;
  if (parts.size() == 1 && parts[0] == "stats") return endpoint::model_statistics;
  refuse_path();
}

/// The route below /v2/repository.
[[nodiscard]] route repository_route(std::span<const std::string_view> parts) {
  if (parts.size() == 1 && parts[0] == "index") return {.target = endpoint::repository_index};
  if (parts.size() != 3 || parts[0] != "models") refuse_path();
  if (parts[2] == "load") return {.target = endpoint::model_load, .model = decode(parts[1])};
  if (parts[2] == "unload") return {.target = endpoint::model_unload, .model = decode(parts[1])};
  refuse_path();
}

/// The route below /v2/systemsharedmemory.
[[nodiscard]] route region_route(std::span<const std::string_view> parts) {
  const bool has_region = parts.size() == 3 && parts[0] == "region";
  if (!has_region && parts.size() != 1) refuse_path();
  route found{};
  if (has_region) found.region = decode(parts[1]);
  if (parts.back() == "status") {
    found.target = endpoint::region_status;
  } else if (parts.back() == "unregister") {
    found.target = endpoint::region_unregister;
  } else if (parts.back() == "register" && has_region) {
    found.target = endpoint::region_register;
  } else {
    refuse_path();
  }
  return found;
}

}  // namespace

bool takes_body(endpoint target) noexcept {
  return target == endpoint::infer || target == endpoint::repository_index ||
         target == endpoint::model_load || target == endpoint::model_unload ||
         target == endpoint::region_register || target == endpoint::region_unregister;
}

access_role required_role(endpoint target) noexcept {
  switch (target) {
    case endpoint::server_live:
    case endpoint::server_ready:
    case endpoint::metrics:
    case endpoint::status_page:
    case endpoint::status_script:
    case endpoint::status_style:
    case endpoint::status_data:
      return access_role::none;
    case endpoint::model_load:
    case endpoint::model_unload:
      return access_role::admin;
    case endpoint::server_metadata:
    case endpoint::model_metadata:
    case endpoint::model_ready:
    case endpoint::model_config:
    case endpoint::model_statistics:
    case endpoint::infer:
    case endpoint::repository_index:
    case endpoint::region_status:
    case endpoint::region_register:
    case endpoint::region_unregister:
      break;
  }
  return access_role::infer;
}

std::string_view allowed_methods(endpoint target) noexcept {
  return takes_body(target) ? "POST, OPTIONS" : "GET, HEAD, OPTIONS";
}

bool allows(endpoint target, http_method method) noexcept {
  if (method == http_method::options) return true;
  if (takes_body(target)) return method == http_method::post;
  return method == http_method::get || method == http_method::head;
}

route find_route(std::string_view path) {
  std::array<std::string_view, most_parts> storage{};
  std::size_t count = 0;
  if (path.substr(0, 1) != "/") refuse_path();
  for (std::string_view rest = path; !rest.empty();) {
    if (count == most_parts) refuse_path();
    rest.remove_prefix(1);
    const std::string_view part = rest.substr(0, rest.find('/'));
    storage[count++] = part;
    rest.remove_prefix(part.size());
  }
  auto parts = std::span<const std::string_view>(storage).first(count);

  if (parts[0] != "v2") refuse_path();
  if (parts.size() == 1) return {.target = endpoint::server_metadata};
  if (parts.size() == 3 && parts[1] == "health") {
    if (parts[2] == "live") return {.target = endpoint::server_live};
    if (parts[2] == "ready") return {.target = endpoint::server_ready};
  }
  if (parts[1] == "repository") return repository_route(parts.subspan(2));
  if (parts[1] == "systemsharedmemory") return region_route(parts.subspan(2));
  if (parts[1] == "cudasharedmemory") {
    throw http_error(501, "CUDA shared memory is not supported");
  }
  if (parts[1] != "models" || parts.size() < 3) refuse_path();

  if (parts.size() == 3 && parts[2] == "stats") return {.target = endpoint::model_statistics};

  route found{};
  const bool has_version = parts.size() >= 5 && parts[3] == "versions";
  found.target = model_endpoint(parts.subspan(has_version ? 5 : 3));
  found.model = decode(parts[2]);
  if (has_version) found.version = decode(parts[4]);
  return found;
}

}  // namespace sluice::service
