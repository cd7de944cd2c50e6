// SPDX-License-Identifier: Apache-2.0
#include "service/arena/message_words.hpp"

#include "service/arena/arena_fault.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

namespace sluice::service {
namespace {

TEST(message_words, are_read_as_they_were_written) {
  for (const std::size_t count : {0, 1, 31}) {
    message_words message(count);
    for (std::size_t i = 0; i < count; ++i) message[i] = ~i;
    std::vector<std::uint64_t> region(32, 5);
    write_message(message, std::as_writable_bytes(std::span(region)));
    EXPECT_EQ(read_message(std::as_writable_bytes(std::span(region)), 31), message);
  }
}

TEST(message_words, stay_inside_of_their_memory) {
  std::vector<std::uint64_t> region(32);
  const auto bytes = std::as_writable_bytes(std::span(region));
  EXPECT_THROW(write_message(message_words(32), bytes), std::invalid_argument);
  for (const std::uint64_t count : {std::uint64_t{32}, std::uint64_t{33}, ~std::uint64_t{0}}) {
    region[0] = count;
    EXPECT_THROW((void)read_message(bytes, 1000), arena_fault) << count;
  }
  region[0] = 31;
  EXPECT_EQ(read_message(bytes, 31).size(), 31);
  EXPECT_THROW((void)read_message(bytes, 30), arena_fault) << "longer than any message";
  EXPECT_THROW((void)read_message(bytes.first(7), 31), arena_fault);
}

TEST(word_reader, reports_what_does_not_fit) {
  const message_words words{7, 8, 9};
  word_reader reader(words);
  EXPECT_EQ(reader.next(), 7);
  EXPECT_EQ(reader.next_up_to(8), 8);
  EXPECT_THROW(reader.finish(), arena_fault);
  EXPECT_THROW((void)reader.next_words(2), arena_fault);
  EXPECT_THROW((void)reader.next_up_to(8), arena_fault);
  EXPECT_NO_THROW(reader.finish());
  EXPECT_THROW((void)reader.next(), arena_fault);
}

}  // namespace
}  // namespace sluice::service
