// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/json_string.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace sluice::service {

void append_json_string(std::string& text, std::string_view value) {
  const bool is_plain = std::all_of(value.begin(), value.end(), [](char c) {
    return c >= ' ' && c <= '~' && c != '"' && c != '\\';
  });
  if (is_plain) {
    text += '"';
    text += value;
    text += '"';
  } else {
    text += nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
}

}  // namespace sluice::service
