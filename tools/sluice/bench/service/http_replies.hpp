// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/service/reply_reader.hpp"
#include "tools/sluice/bench/service/server_address.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::cli {

/// The head of a reply of HTTP/1.1.
struct http_head {
  unsigned status = 0;
  std::uint64_t size = 0;  ///< of the head, in bytes
  std::uint64_t body = 0;  ///< bytes
  std::uint64_t json = 0;  ///< of the body: bytes before the binary data; all if the head has none

  [[nodiscard]] std::uint64_t data() const noexcept { return body - json; }
};

/// Reads the head at the beginning of the bytes; nothing if it is not complete.
/// @throws error `library_failure` if it is none, or says no length of the body
[[nodiscard]] std::optional<http_head> read_http_head(std::string_view bytes);

/// What an error of the service says: `{"error": "..."}`, or else the body itself.
[[nodiscard]] std::string http_error_text(unsigned status, const std::string& body);

/// Reads replies that must have the status 200 and so many bytes of binary data.
class http_reply_reader final : public reply_reader {
 public:
  explicit http_reply_reader(std::uint64_t data) : data_(data) {}

  [[nodiscard]] bool take(std::string_view bytes) override;
  [[nodiscard]] const std::string& problem() const noexcept override { return problem_; }

 private:
  [[nodiscard]] bool take_body(std::string_view bytes);
  [[nodiscard]] std::string judge() const;

  std::uint64_t data_;
  std::string received_{};  ///< of an incomplete head
  std::optional<http_head> head_{};
  std::uint64_t taken_ = 0;   ///< of the body
  std::string error_body_{};  ///< the beginning of the body of a refusal
  std::string problem_{};
};

/// A reply as a whole.
struct http_reply {
  http_head head{};
  std::string body{};
};

/// Sends a request on a connection of its own, and waits for the reply.
/// @throws error `library_failure`, naming the address, without a reply
[[nodiscard]] http_reply call_http(const server_address& server, std::string_view request);

}  // namespace sluice::cli
