// SPDX-License-Identifier: Apache-2.0
#include "service/front/request_body.hpp"

#include "tests/service/front/compressed.hpp"
#include "tests/service/front/expect_http_error.hpp"
#include "tests/support/seed.hpp"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace sluice::service {
namespace {

struct decoded_body {
  std::string text{};
  std::size_t consumed = 0;
  bool is_done = false;
};

/// Decodes `wire` with inputs and outputs of the given sizes.
decoded_body decode(request_body body, const std::string& wire, std::size_t input,
                    std::size_t output) {
  decoded_body result;
  std::string room(output, '\0');
  const auto bytes = std::as_bytes(std::span(wire));
  while (!body.is_done()) {
    const auto piece =
        bytes.subspan(result.consumed, std::min(input, wire.size() - result.consumed));
    const auto step = body.decode(piece, std::as_writable_bytes(std::span(room)));
    result.consumed += step.consumed;
    result.text += room.substr(0, step.written);
    if (step.consumed == 0 && step.written == 0) break;
  }
  result.is_done = body.is_done();
  return result;
}

request_head head_of(const std::string& wire, content_coding coding, bool is_chunked) {
  request_head head{};
  head.coding = coding;
  head.is_chunked = is_chunked;
  head.content_length = is_chunked ? 0 : wire.size();
  return head;
}

constexpr std::uint64_t body_limit = 1 << 20;

TEST(request_body, decodes_each_coding_in_pieces_of_any_size) {
  auto random = sluice::test::make_generator();
  for (const auto coding :
       {content_coding::identity, content_coding::gzip, content_coding::deflate}) {
    for (const bool is_chunked : {false, true}) {
      for (int round = 0; round < 40; ++round) {
        std::string text(random() % 3000 + 1, '\0');
        const auto letters = random() % 255 + 1;
        for (char& c : text) c = static_cast<char>(random() % letters);
        std::string wire = test::compressed(text, coding);
        if (is_chunked) wire = test::chunked(wire, random() % 700 + 1);
        const auto head = head_of(wire, coding, is_chunked);
        const std::string next = "GET / HTTP/1.1";
        const auto result = decode(request_body(head, body_limit), wire + next, random() % 200 + 1,
                                   random() % 200 + 1);
        EXPECT_EQ(result.text, text);
        EXPECT_TRUE(result.is_done);
        EXPECT_EQ(result.consumed, wire.size());
      }
    }
  }
}

TEST(request_body, ends_without_room_for_further_bytes) {
  for (const auto coding :
       {content_coding::identity, content_coding::gzip, content_coding::deflate}) {
    const std::string text = "some text";
    const std::string wire = test::chunked(test::compressed(text, coding), 5);
    request_body body(head_of(wire, coding, true), body_limit);
    std::string room(text.size(), '\0');
    const auto bytes = std::as_bytes(std::span(wire));
    const auto first = body.decode(bytes, std::as_writable_bytes(std::span(room)));
    EXPECT_EQ(room, text);
    (void)body.decode(bytes.subspan(first.consumed), {});
    EXPECT_TRUE(body.is_done());
  }
}

TEST(request_body, refuses_malformed_streams) {
  const std::string good = test::compressed(std::string(100, 'a'), content_coding::gzip);
  const auto refused = [](const std::string& wire, content_coding coding, bool is_chunked) {
    return test::refusal([&] {
      (void)decode(request_body(head_of(wire, coding, is_chunked), body_limit), wire, 7, 13);
    });
  };
  EXPECT_EQ(refused(good, content_coding::gzip, false), 0U);
  EXPECT_EQ(refused(good, content_coding::deflate, false), 400U);
  EXPECT_EQ(refused("no stream", content_coding::gzip, false), 400U);
  EXPECT_EQ(refused(good + "x", content_coding::gzip, false), 400U);
  EXPECT_EQ(refused(good + good, content_coding::gzip, false), 400U);
  EXPECT_EQ(refused(test::chunked(good + "x", 9), content_coding::gzip, true), 400U);
  for (std::size_t length = 1; length < good.size(); ++length) {
    EXPECT_EQ(refused(good.substr(0, length), content_coding::gzip, false), 400U) << length;
    EXPECT_EQ(refused(test::chunked(good.substr(0, length), 9), content_coding::gzip, true), 400U);
  }
  std::string wrong_sum = good;
  wrong_sum[wrong_sum.size() - 6] = static_cast<char>(wrong_sum[wrong_sum.size() - 6] ^ 1);
  EXPECT_EQ(refused(wrong_sum, content_coding::gzip, false), 400U);
}

TEST(request_body, limits_what_is_decoded) {
  const auto refused = [](const std::string& text, content_coding coding, bool is_chunked) {
    std::string wire = test::compressed(text, coding);
    if (is_chunked) wire = test::chunked(wire, 60);
    return test::refusal(
        [&] { (void)decode(request_body(head_of(wire, coding, is_chunked), 100), wire, 50, 50); });
  };
  const std::string fits(100, 'a');
  const std::string bomb(1'000'000, 'a');
  EXPECT_EQ(refused(fits, content_coding::identity, true), 0U);
  EXPECT_EQ(refused(fits + 'a', content_coding::identity, true), 413U);
  EXPECT_EQ(refused(fits, content_coding::gzip, false), 0U);
  EXPECT_EQ(refused(fits + 'a', content_coding::gzip, false), 413U);
  EXPECT_EQ(refused(bomb, content_coding::gzip, false), 413U);
  EXPECT_EQ(refused(bomb, content_coding::deflate, true), 413U);
}

TEST(request_body, plain_bytes_can_be_taken) {
  request_body body(head_of("0123456789", content_coding::identity, false), body_limit);
  EXPECT_EQ(body.plain_bytes(), 10U);
  body.take_plain(4);
  EXPECT_EQ(body.plain_bytes(), 6U);
  EXPECT_FALSE(body.is_done());
  body.take_plain(6);
  EXPECT_TRUE(body.is_done());
  EXPECT_FALSE(request_body(head_of("0", content_coding::gzip, false), body_limit).plain_bytes());
  EXPECT_FALSE(request_body(head_of("", content_coding::identity, true), body_limit).plain_bytes());
  EXPECT_TRUE(request_body().is_done());
}

}  // namespace
}  // namespace sluice::service
