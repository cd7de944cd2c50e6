// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/repository/model_index.hpp"

#include <cstddef>
#include <string>

namespace sluice::service {

/// Finds the files of the steps of all chains of an index. A chain without one of them has a
/// problem, which names the step, and no version. If the config of the model of a step cannot be
/// read, the chain counts as one whose config cannot be read.
void find_steps(model_index& index);

/// The name of a step of a chain, with its number from 0: "0 (detector)".
[[nodiscard]] std::string step_name(std::size_t number, const std::string& model);

}  // namespace sluice::service
