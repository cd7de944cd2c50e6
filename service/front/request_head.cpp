// SPDX-License-Identifier: Apache-2.0
#include "service/front/request_head.hpp"

#include "service/front/ascii_case.hpp"
#include "service/front/http_error.hpp"

#include <boost/beast/http/basic_parser.hpp>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <string>

namespace sluice::service {
namespace {

namespace http = boost::beast::http;

[[nodiscard]] std::string_view view_of(boost::beast::string_view text) noexcept {
  return {text.data(), text.size()};
}

/// Digits and nothing else.
[[nodiscard]] std::uint64_t parse_number(std::string_view name, std::string_view text) {
  std::uint64_t number = 0;
  const auto* const end = text.data() + text.size();
  const auto [last, failure] = std::from_chars(text.data(), end, number);
  if (text.empty() || failure != std::errc{} || last != end) {
    throw http_error(400, std::string(name) + " is not a number of at most 64 bits");
  }
  return number;
}

[[nodiscard]] http_method method_of(http::verb method) noexcept {
  switch (method) {
    case http::verb::get:
      return http_method::get;
    case http::verb::head:
      return http_method::head;
    case http::verb::post:
      return http_method::post;
    case http::verb::options:
      return http_method::options;
    default:
      return http_method::other;
  }
}

[[nodiscard]] content_coding parse_coding(std::string_view text) {
  if (equals_ignoring_case(text, "gzip") || equals_ignoring_case(text, "x-gzip")) {
    return content_coding::gzip;
  }
  if (equals_ignoring_case(text, "deflate")) return content_coding::deflate;
  if (equals_ignoring_case(text, "identity")) return content_coding::identity;
  throw http_error(415, "Content-Encoding is none of gzip, deflate and identity");
}

/// Beast's parser with the gaps closed that let requests be smuggled.
class head_parser final : public http::basic_parser<true> {
 public:
  head_parser(std::string_view text, const http_limits& limits) : text_(text), limits_(limits) {
    header_limit(std::numeric_limits<std::uint32_t>::max());
    body_limit(std::numeric_limits<std::uint64_t>::max());
  }

  [[nodiscard]] request_head parse() {
    check_lines();
    boost::beast::error_code failure;
    const std::size_t parsed = put({text_.data(), text_.size()}, failure);
    if (failure == http::error::bad_version) {
      throw http_error(505, "the server speaks HTTP/1.1 and HTTP/1.0");
    }
    if (failure || parsed != text_.size() || !is_header_done()) {
      throw http_error(400, "the head of the request is malformed: " + failure.message());
    }
    check_host();
    check_framing();
    head_.keeps_alive = keep_alive();
    return head_;
  }

 private:
  void on_request_impl(http::verb method, boost::beast::string_view,
                       boost::beast::string_view target, int version,
                       boost::beast::error_code&) override {
    head_.method = method_of(method);
    head_.is_http_1_0 = version == 10;
    read_target(view_of(target));
  }

  void on_field_impl(http::field field, boost::beast::string_view name,
                     boost::beast::string_view value, boost::beast::error_code&) override {
    if (++fields_ > limits_.fields) throw http_error(431, "the request has too many fields");
    if (field == http::field::unknown) {
      read_extension(view_of(name), view_of(value));
    } else {
      read_field(field, view_of(value));
    }
  }

  void on_response_impl(int, boost::beast::string_view, int, boost::beast::error_code&) override {}
  void on_header_impl(boost::beast::error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&,
                         boost::beast::error_code&) override {}
  std::size_t on_body_impl(boost::beast::string_view, boost::beast::error_code&) override {
    return 0;
  }
  void on_chunk_header_impl(std::uint64_t, boost::beast::string_view,
                            boost::beast::error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, boost::beast::string_view,
                                 boost::beast::error_code&) override {
    return 0;
  }
  void on_finish_impl(boost::beast::error_code&) override {}

  void read_target(std::string_view target) {
    constexpr std::string_view scheme = "http://";
    if (target.size() >= scheme.size() &&
        equals_ignoring_case(target.substr(0, scheme.size()), scheme)) {
      target.remove_prefix(scheme.size());
      const std::size_t slash = std::min(target.find_first_of("/?"), target.size());
      authority_ = target.substr(0, slash);
      if (authority_->empty()) throw http_error(400, "the target of the request has no host");
      target.remove_prefix(slash);
      if (target.empty()) target = "/";
    } else if (target != "*" && target.substr(0, 1) != "/") {
      throw http_error(400, "the target of the request is not a path");
    }
    head_.path = target.substr(0, target.find('?'));
  }

  void read_field(http::field field, std::string_view value) {
    switch (field) {
      case http::field::host:
        once(host_fields_, "Host");
        head_.host = value;
        break;
      case http::field::origin:
        head_.has_origin = true;
        break;
      case http::field::authorization:
        once(authorization_fields_, "Authorization");
        head_.authorization = value;
        break;
      case http::field::content_length:
        once(length_fields_, "Content-Length");
        head_.content_length = parse_number("Content-Length", value);
        break;
      case http::field::transfer_encoding:
        once(transfer_fields_, "Transfer-Encoding");
        if (!equals_ignoring_case(value, "chunked")) {
          throw http_error(501, "Transfer-Encoding is not chunked");
        }
        head_.is_chunked = true;
        break;
      case http::field::content_encoding:
        once(coding_fields_, "Content-Encoding");
        head_.coding = parse_coding(value);
        break;
      case http::field::expect:
        if (!equals_ignoring_case(value, "100-continue")) {
          throw http_error(417, "Expect is not 100-continue");
        }
        head_.expects_continue = true;
        break;
      default:
        break;
    }
  }

  void read_extension(std::string_view name, std::string_view value) {
    using std::chrono::microseconds;
    constexpr std::uint64_t year_us = 31'536'000'000'000;  // keeps sums of times in range
    if (equals_ignoring_case(name, "traceparent")) {
      head_.trace_parent = ++trace_fields_ > 1 ? std::string_view() : value;
    } else if (equals_ignoring_case(name, "Inference-Header-Content-Length")) {
      once(json_fields_, "Inference-Header-Content-Length");
      head_.json_bytes = parse_number("Inference-Header-Content-Length", value);
    } else if (equals_ignoring_case(name, "Inference-Timeout-Us")) {
      const auto timeout = std::min(parse_number("Inference-Timeout-Us", value), year_us);
      shorten_timeout(microseconds(timeout));
    } else if (equals_ignoring_case(name, "X-Envoy-Expected-Rq-Timeout-Ms")) {
      const auto timeout =
          std::min(parse_number("X-Envoy-Expected-Rq-Timeout-Ms", value), year_us / 1000);
      shorten_timeout(microseconds(timeout * 1000));
    }
  }

  void shorten_timeout(std::chrono::microseconds timeout) {
    if (timeout.count() == 0) return;  // as in the parameters of a request: no timeout
    head_.timeout = std::min(timeout, head_.timeout.value_or(timeout));
  }

  static void once(unsigned& count, const char* name) {
    if (++count > 1) throw http_error(400, std::string("the request has several fields ") + name);
  }

  /// Beast joins the lines of a folded field.
  void check_lines() const {
    for (std::size_t end = text_.find('\n'); end < text_.size() - 1;
         end = text_.find('\n', end + 1)) {
      if (text_[end + 1] == ' ' || text_[end + 1] == '\t') {
        throw http_error(400, "the request has a folded field");
      }
    }
  }

  void check_host() {
    if (host_fields_ == 0 && !head_.is_http_1_0)
      throw http_error(400, "the request has no field Host");
    if (authority_) head_.host = *authority_;
  }

  void check_framing() {
    if (length_fields_ > 0 && transfer_fields_ > 0) {
      throw http_error(400, "the request has both Content-Length and Transfer-Encoding");
    }
    if (transfer_fields_ > 0 && head_.is_http_1_0) {
      throw http_error(400, "Transfer-Encoding is not part of HTTP/1.0");
    }
    if (head_.content_length > limits_.body_bytes) {
      throw http_error(413,
                       "the body has more than " + std::to_string(limits_.body_bytes) + " bytes");
    }
  }

  std::string_view text_;
  const http_limits& limits_;
  request_head head_{};
  std::optional<std::string_view> authority_{};
  std::size_t fields_ = 0;
  unsigned host_fields_ = 0;
  unsigned authorization_fields_ = 0;
  unsigned trace_fields_ = 0;
  unsigned length_fields_ = 0;
  unsigned transfer_fields_ = 0;
  unsigned coding_fields_ = 0;
  unsigned json_fields_ = 0;
};

}  // namespace

std::optional<std::size_t> find_head_end(std::string_view text, std::size_t& searched) {
  while (searched < text.size()) {
    const auto* const line_end =
        static_cast<const char*>(std::memchr(text.data() + searched, '\n', text.size() - searched));
    if (line_end == nullptr) {
      searched = text.size();
      return std::nullopt;
    }
    const auto end = static_cast<std::size_t>(line_end - text.data());
    if (end == 0 || text[end - 1] != '\r') {
      throw http_error(400, "a line of the request ends with LF instead of CRLF");
    }
    searched = end + 1;
    if (end >= 3 && text.substr(end - 3, 4) == "\r\n\r\n") return end + 1;
  }
  return std::nullopt;
}

request_head parse_request_head(std::string_view text, const http_limits& limits) {
  return head_parser(text, limits).parse();
}

}  // namespace sluice::service
