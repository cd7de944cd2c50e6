// SPDX-License-Identifier: Apache-2.0
#include "service/front/chunk_decoder.hpp"

#include "tests/service/front/expect_http_error.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace sluice::service {
namespace {

struct decoded {
  std::string data{};
  std::size_t consumed = 0;
  bool is_done = false;
};

/// Decodes the text in pieces of `size` bytes.
decoded decode(const std::string& text, std::size_t size) {
  chunk_decoder decoder;
  decoded result;
  const auto bytes = std::as_bytes(std::span(text));
  while (result.consumed < text.size() && !decoder.is_done()) {
    const auto piece =
        bytes.subspan(result.consumed, std::min(size, text.size() - result.consumed));
    const std::size_t framing = decoder.skip_framing(piece);
    const auto data = static_cast<std::size_t>(
        std::min<std::uint64_t>(piece.size() - framing, decoder.available()));
    result.data += text.substr(result.consumed + framing, data);
    decoder.take(data);
    result.consumed += framing + data;
  }
  result.is_done = decoder.is_done();
  return result;
}

TEST(chunk_decoder, finds_the_data_in_pieces_of_any_size) {
  const std::string text = "3\r\nabc\r\n0A;x=\"y\"\r\n0123456789\r\n00;e\r\nT: v\r\nU:\r\n\r\nnext";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    const auto result = decode(text, size);
    EXPECT_EQ(result.data, "abc0123456789");
    EXPECT_TRUE(result.is_done);
    EXPECT_EQ(result.consumed, text.size() - 4);
  }
}

TEST(chunk_decoder, is_not_done_before_the_end) {
  const std::string text = "1\r\na\r\n0\r\n\r\n";
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(decode(text.substr(0, length), 4).is_done);
  }
}

TEST(chunk_decoder, refuses_malformed_framing) {
  const std::vector<std::string> cases{"\r\n",
                                       "g\r\n",
                                       " 1\r\na\r\n",
                                       "1 \r\na\r\n",
                                       "0x1\r\na\r\n",
                                       "-1\r\n",
                                       "+1\r\na\r\n",
                                       "1\na\r\n",
                                       "1\r\nab\r\n",
                                       "1\r\na\n",
                                       "1\r\na\r0\r\n",
                                       "1\rx",
                                       "1;a\nb\r\n",
                                       "1;\x01\r\n",
                                       "0\r\nA\n\r\n",
                                       "0\r\n A\r\n",
                                       "0\r\n\tA\r\n",
                                       "0\r\n\n",
                                       "0\r\n\rx",
                                       "1;a\rb\r\n",
                                       "10000000000000000\r\n",
                                       "0000000000000001\r\n",
                                       "0\r\nA\x7f\r\n"};
  for (const auto& text : cases) {
    EXPECT_EQ(test::refusal([&] { (void)decode(text, 3); }), 400U) << text;
  }
}

TEST(chunk_decoder, refuses_framing_without_data) {
  EXPECT_EQ(test::refusal([] { (void)decode("1;" + std::string(20'000, 'a'), 64); }), 400U);
  EXPECT_EQ(test::refusal([] { (void)decode("0\r\nA:" + std::string(20'000, 'a'), 64); }), 400U);
  std::string extended;
  for (int i = 0; i < 1000; ++i) extended += "1;" + std::string(100, 'a') + "\r\nx\r\n";
  EXPECT_EQ(test::refusal([&] { (void)decode(extended, 64); }), 400U);
  std::string short_chunks;
  for (int i = 0; i < 10'000; ++i) short_chunks += "1\r\nx\r\n";
  EXPECT_EQ(decode(short_chunks, 64).data.size(), 10'000U);
}

}  // namespace
}  // namespace sluice::service
