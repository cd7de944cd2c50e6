// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/access_tokens.hpp"
#include "service/front/request_head.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::service {

/// What a request is about.
enum class endpoint : std::uint8_t {
  server_metadata,
  server_live,
  server_ready,
  model_metadata,
  model_ready,
  model_config,
  model_statistics,
  infer,
  repository_index,
  model_load,
  model_unload,
  region_status,
  region_register,
  region_unregister,
  // Of the metrics port.
  metrics,
  status_page,
  status_script,
  status_style,
  status_data,
};

/// An endpoint and what it is about, if anything.
struct route {
  endpoint target = endpoint::server_metadata;
  std::string model{};    ///< decoded; any text; empty: all models
  std::string version{};  ///< decoded; empty: the newest, or all
  std::string region{};   ///< of shared memory, decoded; empty: all regions
};

/// Whether requests to the endpoint have a body, and the method POST.
[[nodiscard]] bool takes_body(endpoint target) noexcept;
/// What a client must be allowed to do to ask for the endpoint.
[[nodiscard]] access_role required_role(endpoint target) noexcept;
/// The methods that the endpoint answers, as in a field `Allow`.
[[nodiscard]] std::string_view allowed_methods(endpoint target) noexcept;
/// Whether the endpoint answers the method.
[[nodiscard]] bool allows(endpoint target, http_method method) noexcept;

/// The route of a path.
/// @throws http_error 404 if there is no such path, 501 if it is about CUDA shared memory, 400 if a
/// part of it is not text of percent-encoded UTF-8 without control characters
[[nodiscard]] route find_route(std::string_view path);

}  // namespace sluice::service
