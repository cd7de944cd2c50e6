// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/repository/model_config.hpp"

#include <string>

namespace sluice::service {

/// The message `ModelConfigResponse`. It has what `config_json` has.
[[nodiscard]] std::string config_message(const model_config& config);

}  // namespace sluice::service
