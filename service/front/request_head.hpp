// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/http_options.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::service {

/// The methods that some path answers.
enum class http_method : std::uint8_t { get, head, post, options, other };

/// How the body of a request is compressed.
enum class content_coding : std::uint8_t { identity, gzip, deflate };

/// The request line and the fields of a request, as far as the server acts on them. Views show the
/// text that was parsed.
struct request_head {
  http_method method = http_method::other;
  std::string_view path{};           ///< without the query, percent-encoded; "*" of `OPTIONS *`
  std::string_view host{};           ///< with its port; empty if the request has none
  std::string_view authorization{};  ///< empty if the request has none
  std::string_view trace_parent{};   ///< empty if the request has none, or several
  bool is_http_1_0 = false;
  bool keeps_alive = false;  ///< whether the client wants to send further requests
  bool has_origin = false;   ///< whether a browser sends it for a page
  bool expects_continue = false;
  bool is_chunked = false;
  std::uint64_t content_length = 0;  ///< of a body that is not chunked
  content_coding coding = content_coding::identity;
  std::optional<std::uint64_t> json_bytes{};           ///< Inference-Header-Content-Length
  std::optional<std::chrono::microseconds> timeout{};  ///< the smallest of those in fields

  [[nodiscard]] bool has_body() const noexcept { return is_chunked || content_length > 0; }
};

/// The length of the head at the start of `text`, with the empty line that ends it.
///
/// `searched` bytes are known to hold no end; it is updated.
/// @returns nothing if the end is not there yet
/// @throws http_error 400 at a line that ends with LF alone
[[nodiscard]] std::optional<std::size_t> find_head_end(std::string_view text,
                                                       std::size_t& searched);

/// Parses a head that ends with an empty line.
///
/// Refuses everything about which two parsers may disagree where the request ends: Content-Length
/// beside Transfer-Encoding, twice, or other than digits; any Transfer-Encoding but `chunked`, or
/// from a client of HTTP/1.0; folded lines; space before a colon; control characters.
/// @throws http_error 400, 413, 415, 417, 431, 501 or 505
[[nodiscard]] request_head parse_request_head(std::string_view text, const http_limits& limits);

}  // namespace sluice::service
