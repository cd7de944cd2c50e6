// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

/// A fuzz target: called with any bytes, any number of times. What goes wrong ends the process.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace sluice::fuzz {

/// What errors call the input.
inline constexpr std::string_view input_name = "input";

/// A finding unless `holds`.
inline void require(bool holds, const char* description) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", description);
  std::abort();
}

/// What `parse` makes of the input; nothing where it refuses it as readers of files do, with
/// `invalid_argument` in one printable line that names the input. Any other failure is a finding.
template <class Parse>
[[nodiscard]] std::optional<std::invoke_result_t<Parse>> accepted(Parse parse) {
  try {
    return parse();
  } catch (const error& refusal) {
    const std::string_view text = refusal.what();
    require(refusal.code() == errc::invalid_argument, "a refusal is an invalid_argument");
    require(text.substr(0, input_name.size()) == input_name, "a refusal names the input");
    require(std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; }),
            "a refusal is one printable line");
    return std::nullopt;
  }
}

/// What `read` makes of a descriptor; nothing where it refuses it, with `invalid_argument` or
/// `unsupported` in one printable line that names one of the `fields`.
template <class Read>
[[nodiscard]] std::optional<std::invoke_result_t<Read>> described(
    Read read, std::span<const std::string_view> fields) {
  try {
    return read();
  } catch (const error& refusal) {
    const std::string_view text = refusal.what();
    require(refusal.code() == errc::invalid_argument || refusal.code() == errc::unsupported,
            "a refusal is an invalid_argument, or unsupported");
    require(std::any_of(fields.begin(), fields.end(),
                        [&](std::string_view field) { return text.find(field) != text.npos; }),
            "a refusal names the field");
    require(std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; }),
            "a refusal is one printable line");
    return std::nullopt;
  }
}

}  // namespace sluice::fuzz
