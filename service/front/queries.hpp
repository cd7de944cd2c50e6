// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/http_reply.hpp"
#include "service/front/model_backend.hpp"
#include "service/front/region_registry.hpp"
#include "service/front/routes.hpp"

#include <span>
#include <string_view>

namespace sluice::service {

/// The extensions of the protocol that are served. The first one is of HTTP alone.
[[nodiscard]] std::span<const std::string_view> served_extensions(const region_registry& regions);

/// Answers a request without a body about the server or a model: metadata, config, liveness and
/// readiness.
/// @throws request_error what the backend's `describe` throws, `unavailable` if the server is not
/// ready
[[nodiscard]] http_reply answer_query(const route& query, const model_backend& backend,
                                      const region_registry& regions);

}  // namespace sluice::service
