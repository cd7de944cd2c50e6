// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/metrics/backend_status.hpp"
#include "service/metrics/http_statistics.hpp"

#include <string>

namespace sluice::service {

/// What the status page shows. Numbers count from the start of the service: the page computes rates
/// from two texts. All characters are ASCII.
[[nodiscard]] std::string status_json(const backend_status& backend, const http_counts& http);

}  // namespace sluice::service
