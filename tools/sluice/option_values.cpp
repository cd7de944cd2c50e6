// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/option_values.hpp"

#include "tools/io/displayed.hpp"

#include <sluice/runtime/error.hpp>

#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace sluice::cli {

namespace {

constexpr std::size_t max_dimensions = 64;  // NumPy's limit

[[noreturn]] void refuse(std::string_view option, std::string_view text,
                         const std::string& description) {
  throw error(errc::invalid_argument,
              std::string(option) + ": " + io::quoted(text) + " is not " + description);
}

/// All of `text` as a number. `description` names the expected value in an error.
template <class T>
T parse(std::string_view option, std::string_view text, const std::string& description) {
  T value{};
  const char* const last = text.data() + text.size();
  const auto [end, status] = std::from_chars(text.data(), last, value);
  if (status != std::errc{} || end != last) refuse(option, text, description);
  return value;
}

/// The parts of `text` between commas; one more than there are commas.
std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

std::uint64_t parse_unsigned(std::string_view option, std::string_view text) {
  return parse<std::uint64_t>(option, text, "a whole number from 0 to 18446744073709551615");
}

std::int64_t parse_integer(std::string_view option, std::string_view text, std::int64_t smallest,
                           std::int64_t largest) {
  const std::string description =
      "a whole number from " + std::to_string(smallest) + " to " + std::to_string(largest);
  const auto value = parse<std::int64_t>(option, text, description);
  if (value < smallest || value > largest) refuse(option, text, description);
  return value;
}

double parse_finite(std::string_view option, std::string_view text) {
  const std::string description = "a finite number";
  // from_chars reads no plus sign.
  const bool plus = text.size() > 1 && text[0] == '+' && text[1] != '-';
  const auto value = parse<double>(option, plus ? text.substr(1) : text, description);
  if (!std::isfinite(value)) refuse(option, text, description);
  return value;
}

std::pair<std::int64_t, std::int64_t> parse_pair(std::string_view option, std::string_view text,
                                                 std::int64_t smallest, std::int64_t largest) {
  const auto parts = split(text);
  if (parts.size() > 2) refuse(option, text, "one number or two (H,W)");
  const auto first = parse_integer(option, parts.front(), smallest, largest);
  return {first, parts.size() == 1 ? first : parse_integer(option, parts[1], smallest, largest)};
}

std::vector<std::int64_t> parse_shape(std::string_view option, std::string_view text) {
  const auto parts = split(text);
  if (parts.size() > max_dimensions)
    refuse(option, text, "a shape of at most " + std::to_string(max_dimensions) + " dimensions");
  std::vector<std::int64_t> shape;
  shape.reserve(parts.size());
  for (const std::string_view part : parts)
    shape.push_back(parse_integer(option, part, 0, std::numeric_limits<std::int64_t>::max()));
  return shape;
}

}  // namespace sluice::cli
