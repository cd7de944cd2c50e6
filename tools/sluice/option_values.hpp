#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Reading the values of options: all of the text must be the value. Every function throws
/// `invalid_argument` with one line that begins with the name of the option.
namespace sluice::cli {

/// A decimal number without a sign, 0 ... 2^64 - 1.
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

/// "1000,64": dimensions of at least 0, at least one and at most 64 of them.
[[nodiscard]] std::vector<std::int64_t> parse_shape(std::string_view option, std::string_view text);

}  // namespace sluice::cli
