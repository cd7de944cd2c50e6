// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace sluice::models {

/// Whether a text is UTF-8 (RFC 3629), as the texts of a file of ONNX must be.
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

}  // namespace sluice::models
