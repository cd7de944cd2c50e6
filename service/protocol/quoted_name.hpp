// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace sluice::service {

/// A name from a client in double quotes, for messages: control characters become '?', and long
/// names are cut.
[[nodiscard]] std::string quoted_name(std::string_view name);

}  // namespace sluice::service
