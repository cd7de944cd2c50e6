// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Parsers for the values of options. The value must be the whole text. Every function throws
/// `invalid_argument` with one line that begins with the name of the option.
namespace sluice::cli {

/// A decimal number without a sign, from 0 to 2^64 - 1.
[[nodiscard]] std::uint64_t parse_unsigned(std::string_view option, std::string_view text);

/// A decimal number from `smallest` to `largest`.
[[nodiscard]] std::int64_t parse_integer(
    std::string_view option, std::string_view text, std::int64_t smallest,
    std::int64_t largest = std::numeric_limits<std::int64_t>::max());

/// A finite number, as in "1.5", "-2e-3".
[[nodiscard]] double parse_finite(std::string_view option, std::string_view text);

/// "H,W", or one number for both, each from `smallest` to `largest`.
[[nodiscard]] std::pair<std::int64_t, std::int64_t> parse_pair(
    std::string_view option, std::string_view text, std::int64_t smallest,
    std::int64_t largest = std::numeric_limits<std::int64_t>::max());

/// "1000,64": from 1 to 64 dimensions, none of them negative.
[[nodiscard]] std::vector<std::int64_t> parse_shape(std::string_view option, std::string_view text);

}  // namespace sluice::cli
