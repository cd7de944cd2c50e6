// SPDX-License-Identifier: Apache-2.0
#include "service/front/http_reply.hpp"

#include "service/protocol/reply_json.hpp"

#include <array>
#include <charconv>

namespace sluice::service {
namespace {

[[nodiscard]] std::string_view reason(unsigned status) noexcept {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "";
  }
}

void append_number(std::string& text, std::uint64_t number) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  text.append(digits.data(), end);
}

}  // namespace

http_reply make_error_reply(unsigned status, std::string_view message) {
  return {.status = status, .text = error_json(message)};
}

http_reply make_error_reply(const request_error& error) {
  return make_error_reply(http_status(error.status()), error.what());
}

void write_reply_head(std::string& head, const http_reply& reply, connection_option option) {
  head.assign("HTTP/1.1 ");
  append_number(head, reply.status);
  head.append(" ").append(reason(reply.status)).append("\r\n");
  if (reply.status != 204) {
    std::uint64_t bytes = reply.text.size();
    for (const auto& tensor : reply.binary) bytes += tensor.size();
    head.append("Content-Type: ")
        .append(reply.binary.empty() ? reply.content_type : "application/octet-stream")
        .append("\r\nContent-Length: ");
    append_number(head, bytes);
    head.append("\r\n");
    if (!reply.binary.empty()) {
      head.append("Inference-Header-Content-Length: ");
      append_number(head, reply.text.size());
      head.append("\r\n");
    }
  }
  if (!reply.allow.empty()) head.append("Allow: ").append(reply.allow).append("\r\n");
  if (reply.status == 401) head.append("WWW-Authenticate: Bearer realm=\"sluiced\"\r\n");
  head.append(reply.fields);
  if (reply.status == 429 || reply.status == 503) head.append("Retry-After: 1\r\n");
  if (option == connection_option::close) head.append("Connection: close\r\n");
  if (option == connection_option::named_keep_alive) head.append("Connection: keep-alive\r\n");
  head.append("\r\n");
}

}  // namespace sluice::service
