// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace sluice::operations {

/// A number of things in an error: "1 element", "2 elements".
template <class Count>
[[nodiscard]] std::string counted(Count count, std::string_view noun) {
  return std::to_string(count) + ' ' + std::string(noun) + (count == 1 ? "" : "s");
}

}  // namespace sluice::operations
