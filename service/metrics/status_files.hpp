// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace sluice::service {

/// The text of a file of the status page, which is part of the program.
/// @throws std::out_of_range if there is none with this name
[[nodiscard]] std::string_view status_file(std::string_view name);

}  // namespace sluice::service
