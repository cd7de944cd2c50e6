// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/metrics/backend_status.hpp"
#include "service/metrics/http_statistics.hpp"

#include <string>

namespace sluice::service {

/// The metrics of the service in the text format of Prometheus.
///
/// Labels are names of models of the repository, numbers, status codes and reasons: never text of
/// clients.
[[nodiscard]] std::string metrics_text(const backend_status& backend, const http_counts& http);

}  // namespace sluice::service
