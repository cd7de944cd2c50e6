// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/repository/model_config.hpp"

#include <string>

namespace sluice::service {

/// The config as JSON, with the names and types of Triton's message `ModelConfig`.
[[nodiscard]] std::string config_json(const model_config& config);

}  // namespace sluice::service
