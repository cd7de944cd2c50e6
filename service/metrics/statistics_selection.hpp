// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/metrics/backend_status.hpp"

#include <string_view>
#include <vector>

namespace sluice::service {

/// The versions that a request for statistics is about and that have statistics.
/// @param model    empty: all models
/// @param version  empty: all versions
/// @throws request_error `not_found` if there is no such model or version
[[nodiscard]] std::vector<const version_status*> select_statistics(const backend_status& backend,
                                                                   std::string_view model,
                                                                   std::string_view version);

}  // namespace sluice::service
