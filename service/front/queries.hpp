// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/http_reply.hpp"
#include "service/front/model_backend.hpp"
#include "service/front/routes.hpp"

namespace sluice::service {

/// Answers a request without a body about the server or a model: metadata, config, liveness and
/// readiness.
/// @throws request_error what the backend's `describe` throws, `unavailable` if the server is not
/// ready
[[nodiscard]] http_reply answer_query(const route& query, const model_backend& backend);

}  // namespace sluice::service
