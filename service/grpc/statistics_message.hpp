// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/metrics/backend_status.hpp"

#include <string>
#include <string_view>

namespace sluice::service {

/// The message `ModelStatisticsResponse`.
/// @throws request_error as `select_statistics`
[[nodiscard]] std::string statistics_message(const backend_status& backend, std::string_view model,
                                             std::string_view version);

}  // namespace sluice::service
