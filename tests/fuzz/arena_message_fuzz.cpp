// SPDX-License-Identifier: Apache-2.0
// The front's reading of what a worker writes. An input that begins with 'r' is what the worker
// writes into the rings and the part for replies, any other one the words of a reply, which takes
// much less time.
#include "service/arena/arena_layout.hpp"
#include "service/arena/front_channel.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

namespace sluice::fuzz {
namespace {

using namespace service;

constexpr arena_sizes sizes{.request_bytes = 4096, .reply_bytes = 4096, .ring_capacity = 4};

[[nodiscard]] bool send(front_channel& front, std::uint64_t number) {
  auto region = front.allocate(std::array<std::uint64_t, 1>{8});
  if (!region) return false;
  run_message message{.number = number, .inputs = {{.type = datatype::uint8, .shape = {8}}}};
  return front.send(message, *region);
}

/// Writes the input where a worker writes: heads and tails, entries, then the part for replies.
void write(std::span<const std::byte> input, std::span<std::byte> memory) {
  const arena_layout layout(sizes);
  const auto put = [&](std::span<std::byte> place) {
    const auto count = std::min(place.size(), input.size());
    std::copy_n(input.begin(), count, place.begin());
    input = input.subspan(count);
  };
  put(std::as_writable_bytes(std::span(layout.reply_ring(memory).tail, 1)));
  put(std::as_writable_bytes(std::span(layout.request_ring(memory).head, 1)));
  put(std::as_writable_bytes(std::span(layout.release_ring(memory).head, 1)));
  put(std::as_writable_bytes(layout.reply_ring(memory).slots));
  put(memory.subspan(layout.replies().begin, layout.replies().bytes));
}

/// Checks an output that has passed the checks.
void check_elements(datatype type, std::span<const std::int64_t> shape, std::size_t bytes) {
  auto product = size_of(type);
  for (const auto extent : shape) {
    require(extent >= 0, "no extent is negative");
    product *= static_cast<std::size_t>(extent);
  }
  require(product == bytes, "outputs have the size of their shape");
}

/// Receives replies and checks what passed the checks.
void receive(front_channel& front, std::span<const std::byte> part) {
  std::vector<received_reply> replies;
  std::vector<bool> answered(3);
  (void)front.begin_sleep();
  try {
    (void)front.receive(replies);
  } catch (const arena_fault&) {
    require(!front.begin_sleep(), "a fault keeps the front awake");
  }
  for (const auto& answer : replies) {
    require(answer.number < answered.size() && !answered[answer.number],
            "each request has one answer");
    answered[answer.number] = true;
    require(answer.error.has_value() == (answer.memory == nullptr), "only outputs have memory");
    require(answer.statistics.queue_ns <= run_statistics::max_ns &&
                answer.statistics.compute_ns <= run_statistics::max_ns,
            "the statistics are in range");
    for (const auto& output : answer.outputs) {
      require(output.bytes.data() >= part.data() &&
                  output.bytes.data() + output.bytes.size() <= part.data() + part.size(),
              "outputs lie in the part for replies");
      check_elements(output.type, output.shape, output.bytes.size());
    }
  }
}

void check_channel(std::span<const std::byte> input) {
  front_channel front(sizes);
  const auto memory = front.memory()->bytes();
  const arena_layout layout(sizes);
  for (std::uint64_t number = 0; number < 3; ++number) {
    require(send(front, number), "there is memory for requests");
  }
  write(input, memory);
  for (int round = 0; round < 2; ++round) {
    receive(front, memory.subspan(layout.replies().begin, layout.replies().bytes));
    try {
      for (std::uint64_t number = 3; number < 6; ++number) {
        if (send(front, number)) (void)front.cancel(number);
      }
    } catch (const arena_fault&) {
    }
    if (round == 0) (void)front.take_pending();
  }
}

void check_reply(std::span<const std::byte> input) {
  message_words words(input.size() / sizeof(std::uint64_t));
  if (!words.empty()) std::memcpy(words.data(), input.data(), words.size() * sizeof(words[0]));
  const auto part = arena_layout(sizes).replies();
  try {
    const auto answer = decode_reply(words, part);
    for (const auto& output : answer.outputs) {
      require(defect_of(output, part) == nullptr, "outputs have no defects");
      check_elements(output.type, output.shape, output.bytes);
    }
    if (answer.error) return;
    require(answer.statistics.batch >= 1 && answer.statistics.batch <= run_statistics::max_batch,
            "the statistics are in range");
    require(encode_outputs(answer.number, answer.outputs, part, answer.statistics) == words,
            "outputs are written as they were read");
  } catch (const arena_fault&) {
  }
}

void check(std::span<const std::byte> input) {
  if (input.empty()) return;
  input.front() == std::byte{'r'} ? check_channel(input.subspan(1)) : check_reply(input.subspan(1));
}

}  // namespace
}  // namespace sluice::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sluice::fuzz::check(std::as_bytes(std::span(data, size)));
  return 0;
}
