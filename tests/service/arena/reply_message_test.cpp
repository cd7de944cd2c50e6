// SPDX-License-Identifier: Apache-2.0
#include "service/arena/reply_message.hpp"

#include "service/arena/arena_fault.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>

namespace sluice::service {
namespace {

constexpr arena_part part{.begin = 8192, .bytes = 65536};

/// The words of a reply with one output, which `encode_outputs` would refuse if it has a defect.
[[nodiscard]] message_words words_of(const tensor_descriptor& output) {
  message_words words{5,
                      0,
                      1,
                      0,
                      0,
                      1,
                      output.number,
                      static_cast<std::uint64_t>(output.type),
                      output.offset,
                      output.bytes,
                      output.shape.size()};
  for (const auto extent : output.shape) words.push_back(static_cast<std::uint64_t>(extent));
  return words;
}

TEST(reply_message, is_read_as_it_was_written) {
  const std::vector<tensor_descriptor> outputs{
      {.number = 3, .type = datatype::fp16, .shape = {2, 3}, .offset = part.begin, .bytes = 12},
      {.number = 0, .type = datatype::boolean, .shape = {}, .offset = part.begin + 256, .bytes = 1},
      {.number = 255,
       .type = datatype::int64,
       .shape = {7, 0, std::numeric_limits<std::int64_t>::max()},
       .offset = part.begin + part.bytes,
       .bytes = 0}};
  const auto reply = decode_reply(
      encode_outputs(17, outputs, part, {.queue_ns = 12, .compute_ns = 345, .batch = 6}), part);
  EXPECT_EQ(reply.statistics.queue_ns, 12);
  EXPECT_EQ(reply.statistics.compute_ns, 345);
  EXPECT_EQ(reply.statistics.batch, 6);
  EXPECT_EQ(reply.number, 17);
  EXPECT_FALSE(reply.error);
  ASSERT_EQ(reply.outputs.size(), outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_EQ(reply.outputs[i].number, outputs[i].number);
    EXPECT_EQ(reply.outputs[i].type, outputs[i].type);
    EXPECT_EQ(reply.outputs[i].shape, outputs[i].shape);
    EXPECT_EQ(reply.outputs[i].offset, outputs[i].offset);
    EXPECT_EQ(reply.outputs[i].bytes, outputs[i].bytes);
  }
}

TEST(reply_message, has_errors_of_all_lengths_cut_to_the_limit) {
  for (const std::size_t length : {0, 1, 7, 8, 9, 4095, 4096, 5000}) {
    const std::string text(length, 'x');
    const auto words = encode_error(9, request_status::unavailable, text);
    ASSERT_LE(words.size(), max_reply_words);
    const auto reply = decode_reply(words, part);
    EXPECT_EQ(reply.number, 9);
    ASSERT_TRUE(reply.error);
    EXPECT_EQ(reply.error->status(), request_status::unavailable);
    EXPECT_EQ(reply.error->what(), text.substr(0, max_error_bytes));
  }
  const auto torn = decode_reply(encode_error(9, request_status::internal, "a\xff"), part);
  EXPECT_STREQ(torn.error->what(), "a\xef\xbf\xbd");
}

TEST(reply_message, reports_each_defect_of_an_output) {
  const tensor_descriptor sound{
      .type = datatype::fp32, .shape = {4, 5}, .offset = part.begin + 512, .bytes = 80};
  ASSERT_NO_THROW((void)decode_reply(words_of(sound), part));
  const auto with = [&](auto change) {
    auto output = sound;
    change(output);
    EXPECT_THROW((void)encode_outputs(5, {output}, part), std::invalid_argument);
    return words_of(output);
  };
  const auto is_fault = [&](const message_words& words) {
    EXPECT_THROW((void)decode_reply(words, part), arena_fault);
  };
  is_fault(with([](auto& output) { output.number = 256; }));
  is_fault(with([](auto& output) { output.bytes = 79; }));
  is_fault(with([](auto& output) { output.bytes = 0; }));
  is_fault(with([](auto& output) { output.shape = {-4, -5}; }));
  is_fault(with([](auto& output) { output.shape = {1, 2, 2, 5, 1, 1, 1, 1, 1}; }));
  is_fault(with([](auto& output) { output.shape = {std::int64_t{1} << 62, 4, 5}; }));
  is_fault(with([](auto& output) { output.shape = {}; }));
  is_fault(with([](auto& output) { output.offset += 1; }));
  is_fault(with([](auto& output) { output.offset += 128; }));
  is_fault(with([](auto& output) { output.offset = 0; }));
  is_fault(with([](auto& output) { output.offset = part.begin - 256; }));
  is_fault(with([](auto& output) { output.offset = part.begin + part.bytes; }));
  is_fault(with([](auto& output) { output.offset = ~std::uint64_t{255}; }));
  is_fault(with([](auto& output) {
    output.shape = {(part.bytes + 256) / 4};
    output.bytes = part.bytes + 256;
    output.offset = part.begin;
  }));

  auto words = words_of(sound);
  words[7] = 13;  // no datatype
  is_fault(words);
  words = words_of(sound);
  words[1] = 12;  // no status
  is_fault(words);
  words[1] = ~std::uint64_t{0};
  is_fault(words);
  words = words_of(sound);
  words[2] = 257;
  is_fault(words);
  words = encode_error(5, request_status::internal, "text");
  words[2] = max_error_bytes + 1;
  is_fault(words);
  words[2] = 9;
  is_fault(words);
}

TEST(reply_message, has_statistics_within_their_limits) {
  constexpr auto huge = ~std::uint64_t{0};
  const auto reply = decode_reply(
      encode_outputs(5, {}, part, {.queue_ns = huge, .compute_ns = huge, .batch = huge}), part);
  EXPECT_EQ(reply.statistics.queue_ns, run_statistics::max_ns);
  EXPECT_EQ(reply.statistics.compute_ns, run_statistics::max_ns);
  EXPECT_EQ(reply.statistics.batch, run_statistics::max_batch);
  EXPECT_EQ(decode_reply(encode_outputs(5, {}, part, {.batch = 0}), part).statistics.batch, 1);

  const message_words sound{5, 0, 0, run_statistics::max_ns, 0, run_statistics::max_batch};
  ASSERT_NO_THROW((void)decode_reply(sound, part));
  const auto is_fault = [&](std::size_t index, std::uint64_t value) {
    auto words = sound;
    words[index] = value;
    EXPECT_THROW((void)decode_reply(words, part), arena_fault) << index << ' ' << value;
  };
  for (const auto value : {run_statistics::max_ns + 1, huge}) {
    is_fault(3, value);
    is_fault(4, value);
  }
  for (const auto value : {std::uint64_t{0}, run_statistics::max_batch + 1, huge}) {
    is_fault(5, value);
  }
  for (std::size_t count = 3; count < sound.size(); ++count) {
    EXPECT_THROW((void)decode_reply(message_words(sound.begin(), sound.begin() + count), part),
                 arena_fault);
  }
}

TEST(reply_message, reports_outputs_that_exclude_each_other) {
  tensor_descriptor large{.type = datatype::uint8,
                          .shape = {static_cast<std::int64_t>(part.bytes)},
                          .offset = part.begin,
                          .bytes = part.bytes};
  auto second = large;
  second.number = 1;
  EXPECT_THROW((void)decode_reply(encode_outputs(5, {large, second}, part), part), arena_fault);
  large.shape = {0};
  large.bytes = 0;
  auto words = encode_outputs(5, {large, second}, part);
  ASSERT_NO_THROW((void)decode_reply(words, part));
  words[12] = 0;  // the number of the second
  EXPECT_THROW((void)decode_reply(words, part), arena_fault);
  EXPECT_THROW((void)encode_outputs(5, {large, large}, part), std::invalid_argument);
}

TEST(reply_message, of_any_words_is_sound_or_a_fault) {
  auto generator = sluice::test::make_generator();
  int accepted = 0;
  for (int round = 0; round < 50'000; ++round) {
    auto words = encode_outputs(
        generator(),
        {{.number = 1, .type = datatype::fp32, .shape = {4, 5}, .offset = 8192, .bytes = 80},
         {.number = 2, .type = datatype::uint8, .shape = {3}, .offset = 8448, .bytes = 3}},
        part);
    const auto changes = generator() % 4;
    for (std::uint64_t i = 0; i < changes; ++i) {
      words[generator() % words.size()] =
          generator() % 2 == 0 ? generator() : words[generator() % words.size()];
    }
    if (generator() % 4 == 0) words.resize(generator() % (2 * words.size()));
    try {
      const auto reply = decode_reply(words, part);
      ++accepted;
      for (const auto& output : reply.outputs) ASSERT_EQ(defect_of(output, part), nullptr);
    } catch (const arena_fault&) {
    }
  }
  EXPECT_GT(accepted, 1000);
}

}  // namespace
}  // namespace sluice::service
