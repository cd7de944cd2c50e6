// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/metrics/backend_status.hpp"
#include "service/metrics/http_statistics.hpp"

#include <array>
#include <cstdint>

namespace sluice::service {

/// How many requests or connections were refused for one reason.
struct refusals {
  const char* reason = "";
  std::uint64_t count = 0;
};

/// The refusals by reason.
[[nodiscard]] inline std::array<refusals, 10> refusals_of(const backend_status& backend,
                                                          const http_counts& http) {
  return {{{"connections", http.refused_connections},
           {"foreign_origin", http.refused_origins},
           {"json_memory", http.refused_json},
           {"reply_memory", http.refused_replies},
           {"input_memory", backend.refused_memory},
           {"in_flight", backend.refused_in_flight},
           {"no_worker", backend.refused_without_worker},
           {"tenant_limit", http.refused_tenants},
           {"quarantine", backend.refused_quarantine},
           {"too_large", backend.refused_size}}};
}

}  // namespace sluice::service
