// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/http_reply.hpp"
#include "service/front/model_backend.hpp"
#include "service/front/routes.hpp"

#include <array>
#include <string_view>

namespace sluice::service {

/// The extensions of the protocol that are served. The first one is of HTTP alone.
inline constexpr std::array<std::string_view, 5> service_extensions{
    "binary_tensor_data", "model_configuration", "model_repository", "sequence", "statistics"};

/// Answers a request without a body about the server or a model: metadata, config, liveness and
/// readiness.
/// @throws request_error what the backend's `describe` throws, `unavailable` if the server is not
/// ready
[[nodiscard]] http_reply answer_query(const route& query, const model_backend& backend);

}  // namespace sluice::service
