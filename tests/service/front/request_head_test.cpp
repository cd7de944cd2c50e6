// SPDX-License-Identifier: Apache-2.0
#include "service/front/request_head.hpp"

#include "tests/service/front/expect_http_error.hpp"

#include <string>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

using test::refusal;

unsigned refusal_of(const std::string& text) {
  return refusal([&] { (void)parse_request_head(text, {}); });
}

/// A POST with these fields besides Host.
std::string post(const std::string& fields) {
  return "POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
}

TEST(request_head, reads_what_the_server_acts_on) {
  const std::string text =
      "POST /v2/models/m/infer?a=b HTTP/1.1\r\nHOST: localhost:8000\r\ncontent-length:  12 \r\n"
      "Content-Encoding: GZIP\r\nInference-Header-Content-Length: 7\r\nOrigin: http://a\r\n"
      "Inference-Timeout-Us: 5000\r\nX-Envoy-Expected-Rq-Timeout-Ms: 3\r\nExpect: 100-Continue\r\n"
      "TraceParent: 00-ab\r\nX-Other: \xc3\xa9\r\n\r\n";
  const auto head = parse_request_head(text, {});
  EXPECT_EQ(head.method, http_method::post);
  EXPECT_EQ(head.path, "/v2/models/m/infer");
  EXPECT_EQ(head.host, "localhost:8000");
  EXPECT_FALSE(head.is_http_1_0);
  EXPECT_TRUE(head.keeps_alive);
  EXPECT_TRUE(head.has_origin);
  EXPECT_TRUE(head.expects_continue);
  EXPECT_FALSE(head.is_chunked);
  EXPECT_TRUE(head.has_body());
  EXPECT_EQ(head.content_length, 12U);
  EXPECT_EQ(head.coding, content_coding::gzip);
  EXPECT_EQ(head.json_bytes, 7U);
  EXPECT_EQ(head.timeout, std::chrono::milliseconds(3));
  EXPECT_EQ(head.trace_parent, "00-ab");
}

TEST(request_head, has_no_body_without_a_length) {
  const auto head = parse_request_head("GET / HTTP/1.1\r\nHost: a\r\n\r\n", {});
  EXPECT_FALSE(head.has_body());
  EXPECT_FALSE(head.json_bytes);
  EXPECT_FALSE(head.timeout);
  EXPECT_FALSE(parse_request_head(post("Inference-Timeout-Us: 0\r\n"), {}).timeout);
  EXPECT_EQ(parse_request_head(post("traceparent: 1\r\ntraceparent: 2\r\n"), {}).trace_parent, "");
}

TEST(request_head, takes_the_host_of_an_absolute_target) {
  const auto head = parse_request_head("GET http://b:1/v2?x HTTP/1.1\r\nHost: a\r\n\r\n", {});
  EXPECT_EQ(head.host, "b:1");
  EXPECT_EQ(head.path, "/v2");
  EXPECT_EQ(parse_request_head("GET HTTP://b HTTP/1.1\r\nHost: a\r\n\r\n", {}).path, "/");
  EXPECT_EQ(refusal_of("GET http:///v2 HTTP/1.1\r\nHost: a\r\n\r\n"), 400U);
  EXPECT_EQ(refusal_of("GET https://b/v2 HTTP/1.1\r\nHost: a\r\n\r\n"), 400U);
}

TEST(request_head, closes_as_the_version_and_the_client_say) {
  const auto keeps_alive = [](const std::string& text) {
    return parse_request_head(text, {}).keeps_alive;
  };
  EXPECT_TRUE(keeps_alive("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_FALSE(keeps_alive("GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n"));
  EXPECT_FALSE(keeps_alive("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(keeps_alive("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
}

TEST(request_head, refuses_what_parsers_read_differently) {
  const std::vector<std::pair<std::string, unsigned>> cases{
      {post("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), 400},
      {post("Transfer-Encoding: chunked\r\nContent-Length: 1\r\n"), 400},
      {post("Content-Length: 1\r\nContent-Length: 2\r\n"), 400},
      {post("Content-Length: 1\r\nContent-Length: 1\r\n"), 400},
      {post("Content-Length: 1, 1\r\n"), 400},
      {post("Content-Length: +1\r\n"), 400},
      {post("Content-Length: -1\r\n"), 400},
      {post("Content-Length: 0x1\r\n"), 400},
      {post("Content-Length: 1 1\r\n"), 400},
      {post("Content-Length:\r\n"), 400},
      {post("Content-Length: 18446744073709551616\r\n"), 400},
      {post("Content-Length: 18446744073709551615\r\n"), 413},
      {post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400},
      {post("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n"), 501},
      {post("Transfer-Encoding: gzip, chunked\r\n"), 501},
      {post("Transfer-Encoding: chunked, identity\r\n"), 501},
      {post("Transfer-Encoding: xchunked\r\n"), 501},
      {post("Transfer-Encoding: \x0b"
            "chunked\r\n"),
       400},
      {post("Transfer-Encoding:\r\n"), 501},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {post("Content-Length : 1\r\n"), 400},
      {post(" Content-Length: 1\r\n"), 400},
      {post("X: a\r\n b\r\n"), 400},
      {post("X: a\r\n\tb\r\n"), 400},
      {post("X: \r\n b\r\n"), 400},
      {post("X: a\r\n \r\n"), 400},
      {post("X\r\n"), 400},
      {post(": a\r\n"), 400},
      {post("X(: a\r\n"), 400},
      {post("X: a\rb\r\n"), 400},
      {post(std::string("X: a\0b\r\n", 8)), 400},
      {post("X: \x7f\r\n"), 400},
      {post("Host: localhost\r\n"), 400},
      {post("Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n"), 400},
      {post("Content-Encoding: br\r\n"), 415},
      {post("Content-Encoding: gzip, gzip\r\n"), 415},
      {post("Expect: 200-ok\r\n"), 417},
      {post("Inference-Header-Content-Length: 1\r\nInference-Header-Content-Length: 1\r\n"), 400},
      {post("Inference-Header-Content-Length: -1\r\n"), 400},
      {post("Inference-Timeout-Us: soon\r\n"), 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /\tHTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 505},
      {"GET /\r\nHost: a\r\n\r\n", 400},
      {"GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
      {"PRI * HTTP/2.0\r\n\r\n", 505},
      {"GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505},
      {"\r\n\r\n", 400},
  };
  for (const auto& [text, status] : cases) EXPECT_EQ(refusal_of(text), status) << text;
}

TEST(request_head, counts_fields) {
  http_limits limits{};
  limits.fields = 3;
  const auto refused = [&](const std::string& fields) {
    return refusal([&] { (void)parse_request_head(post(fields), limits); });
  };
  EXPECT_EQ(refused("A: 1\r\nB: 2\r\n"), 0U);
  EXPECT_EQ(refused("A: 1\r\nB: 2\r\nC: 3\r\n"), 431U);
}

TEST(request_head, limits_the_body) {
  http_limits limits{};
  limits.body_bytes = 10;
  const auto refused = [&](const std::string& fields) {
    return refusal([&] { (void)parse_request_head(post(fields), limits); });
  };
  EXPECT_EQ(refused("Content-Length: 10\r\n"), 0U);
  EXPECT_EQ(refused("Content-Length: 11\r\n"), 413U);
}

TEST(request_head, end_is_found_in_pieces_of_any_size) {
  const std::string text = "GET / HTTP/1.1\r\nHost: a\r\n\r\nrest\n";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    std::size_t searched = 0;
    std::optional<std::size_t> end;
    for (std::size_t have = size; !end; have = std::min(have + size, text.size())) {
      end = find_head_end(std::string_view(text).substr(0, have), searched);
      ASSERT_TRUE(end || have < text.size());
    }
    EXPECT_EQ(*end, text.find("rest"));
  }
}

TEST(request_head, lines_end_with_crlf) {
  for (const std::string text :
       {"GET / HTTP/1.1\nHost: a\n\n", "\n", "GET / HTTP/1.1\r\nA: b\n\r\n"}) {
    std::size_t searched = 0;
    EXPECT_EQ(refusal([&] { (void)find_head_end(text, searched); }), 400U) << text;
  }
}

}  // namespace
}  // namespace sluice::service
