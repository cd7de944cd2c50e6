// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace sluice::service {

/// Appends a string to a JSON text, with quotes and escapes. Bytes that are not UTF-8 become
/// U+FFFD.
void append_json_string(std::string& text, std::string_view value);

}  // namespace sluice::service
