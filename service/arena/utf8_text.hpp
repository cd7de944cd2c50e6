// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace sluice::service {

/// Whether the text is UTF-8 (RFC 3629).
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;
/// The text with U+FFFD in place of each byte that belongs to no character of UTF-8.
[[nodiscard]] std::string valid_utf8(std::string_view text);

}  // namespace sluice::service
