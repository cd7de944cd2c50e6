// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace sluice::service {

/// `text` in printable ASCII, for messages: other bytes become \xNN, and what exceeds 256 bytes is
/// replaced by "...".
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace sluice::service
