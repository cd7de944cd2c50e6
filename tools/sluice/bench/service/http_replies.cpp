// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/service/http_replies.hpp"

#include "tools/io/displayed.hpp"

#include <sluice/runtime/error.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cerrno>
#include <charconv>
#include <strings.h>
#include <system_error>

namespace sluice::cli {

namespace {

constexpr std::size_t most_head_bytes = 64 * 1024;
constexpr std::size_t most_error_bytes = 512;
constexpr std::string_view head_end = "\r\n\r\n";

[[noreturn]] void reject(const std::string& why) {
  throw error(errc::library_failure, why);
}

/// The value of a line "name: value", if it has this name.
std::optional<std::string_view> field_value(std::string_view line, std::string_view name) {
  if (line.size() <= name.size() || line[name.size()] != ':' ||
      ::strncasecmp(line.data(), name.data(), name.size()) != 0) {
    return std::nullopt;
  }
  const auto start = line.find_first_not_of(' ', name.size() + 1);
  return start == std::string_view::npos ? std::string_view() : line.substr(start);
}

std::uint64_t number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, number);
  if (code != std::errc() || stop != end)
    reject(fmt::format("a reply has the length '{}'", io::displayed(std::string(text))));
  return number;
}

http_reply receive_http(int connection) {
  http_reply reply;
  std::optional<http_head> head;
  std::array<char, 65536> bytes{};
  while (!head || reply.body.size() < head->size + head->body) {
    const auto count = ::recv(connection, bytes.data(), bytes.size(), 0);
    if (count == 0) reject("the server closed the connection");
    if (count < 0) reject(std::generic_category().message(errno));
    reply.body.append(bytes.data(), static_cast<std::size_t>(count));
    if (!head) head = read_http_head(reply.body);
  }
  reply.head = *head;
  reply.body.erase(0, head->size);
  return reply;
}

}  // namespace

std::optional<http_head> read_http_head(std::string_view bytes) {
  constexpr std::string_view start = "HTTP/1.1 ";
  const auto compared = std::min(bytes.size(), start.size());
  if (bytes.substr(0, compared) != start.substr(0, compared)) reject("the reply is no HTTP/1.1");
  const auto end = bytes.find(head_end);
  if (end == std::string_view::npos) {
    if (bytes.size() > most_head_bytes) reject("the head of a reply is too long");
    return std::nullopt;
  }
  http_head head{.size = end + head_end.size()};
  std::optional<std::uint64_t> length;
  std::optional<std::uint64_t> json;
  const auto lines = bytes.substr(0, end + 2);
  (void)std::from_chars(lines.data() + start.size(), lines.data() + lines.size(), head.status);
  for (auto place = lines.find("\r\n") + 2; place < lines.size();) {
    const auto stop = lines.find("\r\n", place);
    const auto line = lines.substr(place, stop - place);
    if (const auto value = field_value(line, "Content-Length")) length = number_of(*value);
    if (const auto value = field_value(line, "Inference-Header-Content-Length"))
      json = number_of(*value);
    place = stop + 2;
  }
  if (!length) reject("a reply has no Content-Length");
  head.body = *length;
  head.json = json.value_or(head.body);
  if (head.json > head.body) reject("a reply has more JSON than body");
  return head;
}

std::string http_error_text(unsigned status, const std::string& body) {
  const auto json = nlohmann::json::parse(body, nullptr, false);
  const bool has_text = json.is_object() && json.contains("error") && json["error"].is_string();
  const auto text = has_text ? json["error"].get<std::string>() : body.substr(0, most_error_bytes);
  return fmt::format("HTTP {}{}{}", status, text.empty() ? "" : ": ", io::displayed(text));
}

bool http_reply_reader::take(std::string_view bytes) {
  if (head_) return take_body(bytes);
  // The head of most replies comes in one piece.
  if (!received_.empty()) bytes = received_.append(bytes);
  head_ = read_http_head(bytes);
  if (head_) {
    taken_ = 0;
    error_body_.clear();
    const bool is_complete = take_body(bytes.substr(head_->size));
    received_.clear();
    return is_complete;
  }
  if (received_.empty()) received_ = bytes;
  return false;
}

bool http_reply_reader::take_body(std::string_view bytes) {
  if (head_->status != 200) error_body_ += bytes.substr(0, most_error_bytes - error_body_.size());
  taken_ += bytes.size();
  if (taken_ < head_->body) return false;
  problem_ = judge();
  head_.reset();
  return true;
}

std::string http_reply_reader::judge() const {
  if (taken_ > head_->body) return "more bytes than the reply has";
  if (head_->status != 200) return http_error_text(head_->status, error_body_);
  if (head_->data() == data_) return {};
  return fmt::format("{} bytes of outputs instead of {}", head_->data(), data_);
}

http_reply call_http(const server_address& server, std::string_view request) {
  const server_connection connection(server);
  try {
    while (!request.empty()) {
      const auto sent =
          ::send(connection.descriptor(), request.data(), request.size(), MSG_NOSIGNAL);
      if (sent <= 0) break;  // the server may have refused the request before its end
      request.remove_prefix(static_cast<std::size_t>(sent));
    }
    return receive_http(connection.descriptor());
  } catch (const error& e) {
    throw error(e.code(), fmt::format("{}: {}", io::displayed(server.text), e.what()));
  }
}

}  // namespace sluice::cli
