// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <string_view>

namespace sluice::service {

/// The tree of a config in TOML.
/// @throws config_error if the text is malformed, or has a value that no key can have
[[nodiscard]] nlohmann::json parse_toml(std::string_view text);

/// The tree of a config in the text format of protobuf. Maps of Triton's messages, which the text
/// writes as lists of entries, are objects, and a parameter is its string.
/// @throws config_error if the text is malformed, or has an unknown key or a value of another type
[[nodiscard]] nlohmann::json parse_pbtxt(std::string_view text);

}  // namespace sluice::service
