// SPDX-License-Identifier: Apache-2.0
#include "service/arena/run_message.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <stdexcept>

namespace sluice::service {
namespace {

// The wanted outputs are a set of bits, so that the message has a size that is known before them.
constexpr std::size_t word_bits = 64;
constexpr std::size_t set_words = tensor_descriptor::max_count / word_bits;
constexpr std::size_t fixed_words = 7 + set_words;

}  // namespace

std::size_t run_message_words(std::size_t inputs) noexcept {
  return fixed_words + inputs * tensor_words;
}

message_words encode(const run_message& message, arena_part requests) {
  const bool is_ascending = std::adjacent_find(message.outputs.begin(), message.outputs.end(),
                                               std::greater_equal<>()) == message.outputs.end();
  if (message.number >= arena_layout::cancellation || !is_ascending ||
      message.inputs.size() > tensor_descriptor::max_count) {
    throw std::invalid_argument("a request that no message can express");
  }
  std::array<std::uint64_t, set_words> outputs{};
  for (const auto number : message.outputs) {
    if (number >= tensor_descriptor::max_count) {
      throw std::invalid_argument("an output has too high a number");
    }
    outputs[number / word_bits] |= std::uint64_t{1} << number % word_bits;
  }

  message_words words;
  words.reserve(run_message_words(message.inputs.size()));
  words.insert(words.end(), {message.number, message.model, message.priority, message.deadline_ns,
                             message.tenant, message.connection, message.inputs.size()});
  words.insert(words.end(), outputs.begin(), outputs.end());
  for (const auto& input : message.inputs) append(words, input, requests);
  return words;
}

run_message decode_run(const message_words& words, arena_part requests) {
  word_reader reader(words);
  run_message message{.number = reader.next_up_to(arena_layout::cancellation - 1),
                      .model = static_cast<std::uint32_t>(
                          reader.next_up_to(std::numeric_limits<std::uint32_t>::max())),
                      .priority = reader.next(),
                      .deadline_ns = reader.next(),
                      .tenant = reader.next(),
                      .connection = reader.next()};
  const auto inputs = reader.next_up_to(tensor_descriptor::max_count);
  const auto outputs = reader.next_words(set_words);
  for (std::uint32_t number = 0; number < tensor_descriptor::max_count; ++number) {
    if ((outputs[number / word_bits] >> number % word_bits & 1U) != 0) {
      message.outputs.push_back(number);
    }
  }
  message.inputs.reserve(inputs);
  for (std::uint64_t i = 0; i < inputs; ++i) {
    message.inputs.push_back(read_tensor(reader, requests));
  }
  reader.finish();
  return message;
}

}  // namespace sluice::service
