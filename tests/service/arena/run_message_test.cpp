// SPDX-License-Identifier: Apache-2.0
#include "service/arena/run_message.hpp"

#include "service/arena/arena_fault.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <stdexcept>

namespace sluice::service {
namespace {

constexpr arena_part requests_part{.begin = 8192, .bytes = std::uint64_t{1} << 20};

[[nodiscard]] run_message random_message(std::mt19937_64& generator) {
  run_message message{.number = generator() >> 1,
                      .model = static_cast<std::uint32_t>(generator()),
                      .priority = generator(),
                      .deadline_ns = generator(),
                      .tenant = generator(),
                      .connection = generator()};
  const auto inputs = generator() % 5;
  for (std::uint64_t i = 0; i < inputs; ++i) {
    tensor_descriptor input{.number = static_cast<std::uint32_t>(generator() % 256),
                            .type = static_cast<datatype>(generator() % 13),
                            .offset = requests_part.begin + 256 * (generator() % 256)};
    input.bytes = size_of(input.type);
    const auto rank = generator() % 9;
    for (std::uint64_t axis = 0; axis < rank; ++axis) {
      input.shape.push_back(static_cast<std::int64_t>(generator() % 4));
      input.bytes *= static_cast<std::uint64_t>(input.shape.back());
    }
    message.inputs.push_back(std::move(input));
  }
  for (std::uint32_t number = 0; number < 256; ++number) {
    if (generator() % 64 == 0) message.outputs.push_back(number);
  }
  return message;
}

TEST(run_message, is_read_as_it_was_written) {
  auto generator = sluice::test::make_generator();
  for (int round = 0; round < 2'000; ++round) {
    const auto message = random_message(generator);
    const auto words = encode(message, requests_part);
    ASSERT_LE(words.size(), run_message_words(message.inputs.size()));
    const auto copy = decode_run(words, requests_part);
    ASSERT_EQ(copy.number, message.number);
    ASSERT_EQ(copy.model, message.model);
    ASSERT_EQ(copy.priority, message.priority);
    ASSERT_EQ(copy.deadline_ns, message.deadline_ns);
    ASSERT_EQ(copy.tenant, message.tenant);
    ASSERT_EQ(copy.connection, message.connection);
    ASSERT_EQ(copy.outputs, message.outputs);
    ASSERT_EQ(copy.inputs.size(), message.inputs.size());
    for (std::size_t i = 0; i < copy.inputs.size(); ++i) {
      ASSERT_EQ(copy.inputs[i].number, message.inputs[i].number);
      ASSERT_EQ(copy.inputs[i].type, message.inputs[i].type);
      ASSERT_EQ(copy.inputs[i].shape, message.inputs[i].shape);
      ASSERT_EQ(copy.inputs[i].offset, message.inputs[i].offset);
      ASSERT_EQ(copy.inputs[i].bytes, message.inputs[i].bytes);
    }
  }
}

TEST(run_message, refuses_what_it_cannot_express) {
  const auto refuses = [](const run_message& message) {
    try {
      (void)encode(message, requests_part);
      return false;
    } catch (const std::invalid_argument&) {
      return true;
    }
  };
  const tensor_descriptor input{.shape = {2}, .offset = requests_part.begin, .bytes = 8};
  EXPECT_FALSE(refuses({.inputs = {input}, .outputs = {0, 7, 255}}));
  EXPECT_TRUE(refuses({.number = std::uint64_t{1} << 63}));
  EXPECT_TRUE(refuses({.outputs = {7, 0}}));
  EXPECT_TRUE(refuses({.outputs = {7, 7}}));
  EXPECT_TRUE(refuses({.outputs = {256}}));
  EXPECT_TRUE(refuses({.inputs = std::vector(257, input)}));
  auto deep = input;
  deep.shape = {2, 1, 1, 1, 1, 1, 1, 1};
  EXPECT_FALSE(refuses({.inputs = {deep}}));
  deep.shape.push_back(1);
  EXPECT_TRUE(refuses({.inputs = {deep}}));
}

TEST(run_message, reports_words_that_are_none) {
  auto generator = sluice::test::make_generator();
  for (int round = 0; round < 2'000; ++round) {
    auto words = encode(random_message(generator), requests_part);
    auto shorter = words;
    shorter.resize(generator() % words.size());
    ASSERT_THROW((void)decode_run(shorter, requests_part), arena_fault);
    words.push_back(0);
    ASSERT_THROW((void)decode_run(words, requests_part), arena_fault);
  }
}

}  // namespace
}  // namespace sluice::service
