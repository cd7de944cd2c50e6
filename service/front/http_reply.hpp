// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/model_backend.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::service {

/// An answer to a request.
struct http_reply {
  unsigned status = 200;
  std::string text{};
  /// Follows the text; if there is any, also of no bytes, the reply says where the text ends.
  std::vector<std::span<const std::byte>> binary{};
  std::shared_ptr<const void> memory{};  ///< keeps `binary`
  // Of static storage.
  std::string_view allow{};                            ///< the field Allow if not empty
  std::string_view content_type = "application/json";  ///< of a reply without `binary`
  std::string_view fields{};                           ///< further ones, each with its CRLF
};

/// What the head of a reply says about its connection.
enum class connection_option : unsigned char {
  close,
  keep_alive,        ///< the default of HTTP/1.1
  named_keep_alive,  ///< for clients of HTTP/1.0
};

/// The reply to a request that has no result.
[[nodiscard]] http_reply make_error_reply(unsigned status, std::string_view message);
[[nodiscard]] http_reply make_error_reply(const request_error& error);

/// Writes the status line and the fields of a reply over `head`.
void write_reply_head(std::string& head, const http_reply& reply, connection_option option);

}  // namespace sluice::service
