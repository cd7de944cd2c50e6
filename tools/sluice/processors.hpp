// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace sluice::cli {

/// The numbers of the processors that the process may use.
[[nodiscard]] std::vector<int> processors_of_process();

}  // namespace sluice::cli
