// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/service/http_replies.hpp"

#include "tests/support/expect_error.hpp"
#include "tests/support/seed.hpp"
#include "tests/tools/sluice/bench/service/scripted_server.hpp"

#include <sluice/runtime/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace sluice::cli {
namespace {

using sluice::test::http_reply_text;

/// What a reader says of the only reply in `bytes`, which come in random pieces.
std::string problem_in_pieces(const std::string& bytes, std::uint64_t data,
                              std::mt19937_64& generator) {
  http_reply_reader reader(data);
  for (std::size_t place = 0; place < bytes.size();) {
    const auto most = std::min<std::size_t>(bytes.size() - place, 40);
    const auto count = std::uniform_int_distribution<std::size_t>(1, most)(generator);
    const bool is_complete = reader.take(std::string_view(bytes).substr(place, count));
    place += count;
    EXPECT_EQ(is_complete, place == bytes.size()) << place << " of " << bytes.size();
  }
  return reader.problem();
}

TEST(http_replies, are_complete_after_their_last_byte) {
  auto generator = sluice::test::make_generator();
  for (int i = 0; i < 200; ++i) {
    const auto json = generator() % 100;
    const auto data = 1 + generator() % 100;
    const auto text = http_reply_text(200, std::string(json + data, 'x'), json);
    EXPECT_EQ(problem_in_pieces(text, data, generator), "");
    EXPECT_NE(problem_in_pieces(text, data + 1, generator).find("instead of"), std::string::npos);
  }
}

TEST(http_replies, may_follow_each_other) {
  http_reply_reader reader(3);
  const auto good = http_reply_text(200, "{}abc", 2);
  EXPECT_TRUE(reader.take(good));
  EXPECT_EQ(reader.problem(), "");
  EXPECT_TRUE(reader.take(http_reply_text(503, R"({"error": "no worker"})")));
  EXPECT_EQ(reader.problem(), "HTTP 503: no worker");
  EXPECT_TRUE(reader.take(good));
  EXPECT_EQ(reader.problem(), "");
}

TEST(http_replies, have_errors_of_any_size) {
  auto generator = sluice::test::make_generator();
  EXPECT_EQ(problem_in_pieces(http_reply_text(500, "why"), 3, generator), "HTTP 500: why");
  const auto problem =
      problem_in_pieces(http_reply_text(500, std::string(100000, 'x')), 3, generator);
  EXPECT_LT(problem.size(), 1000U);
  EXPECT_NE(problem.find("HTTP 500: xxx"), std::string::npos);
  http_reply_reader reader(0);
  EXPECT_TRUE(reader.take(http_reply_text(404, "")));
  EXPECT_EQ(reader.problem(), "HTTP 404");
}

TEST(http_replies, that_are_none_are_refused) {
  const auto expect_refusal = [](const std::string& bytes, const std::string& text) {
    const auto thrown = sluice::test::error_of([&] { (void)http_reply_reader(0).take(bytes); });
    ASSERT_TRUE(thrown) << bytes.substr(0, 100);
    EXPECT_EQ(thrown->code(), errc::library_failure);
    EXPECT_NE(std::string(thrown->what()).find(text), std::string::npos) << thrown->what();
  };
  expect_refusal("SSH-2.0-x\r\n", "no HTTP/1.1");
  expect_refusal("HTTP/1.1 200 OK\r\n\r\n", "no Content-Length");
  expect_refusal("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "'-1'");
  expect_refusal("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", "length");
  expect_refusal(http_reply_text(200, "abc", 4), "more JSON");
  expect_refusal("HTTP/1.1 200 OK\r\n" + std::string(100000, 'x'), "too long");
}

TEST(http_replies, of_more_bytes_than_they_say_are_wrong) {
  http_reply_reader reader(3);
  EXPECT_TRUE(reader.take(http_reply_text(200, "{}abc", 2) + "x"));
  EXPECT_NE(reader.problem().find("more bytes"), std::string::npos);
}

}  // namespace
}  // namespace sluice::cli
