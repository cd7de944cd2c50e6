// SPDX-License-Identifier: Apache-2.0
#include "service/arena/reply_message.hpp"

#include "service/arena/arena_fault.hpp"
#include "service/arena/utf8_text.hpp"

#include <algorithm>
#include <bitset>
#include <cstring>
#include <stdexcept>

namespace sluice::service {
namespace {

constexpr std::uint64_t has_outputs = 0;  ///< otherwise the status plus 1
constexpr auto last_status = static_cast<std::uint64_t>(request_status::deadline_exceeded);

[[nodiscard]] bool have_different_numbers(const std::vector<tensor_descriptor>& outputs) {
  std::bitset<tensor_descriptor::max_count> numbers;
  for (const auto& output : outputs) numbers.set(output.number);
  return numbers.count() == outputs.size();
}

[[nodiscard]] run_statistics read_statistics(word_reader& reader) {
  run_statistics statistics{};
  statistics.queue_ns = reader.next_up_to(run_statistics::max_ns);
  statistics.compute_ns = reader.next_up_to(run_statistics::max_ns);
  statistics.batch = reader.next_up_to(run_statistics::max_batch);
  if (statistics.batch == 0) throw arena_fault("a run without a request");
  return statistics;
}

}  // namespace

std::size_t reply_message_words(std::size_t outputs) noexcept {
  return 6 + outputs * tensor_words;
}

message_words encode_outputs(std::uint64_t number, const std::vector<tensor_descriptor>& outputs,
                             arena_part replies, const run_statistics& statistics) {
  message_words words{number,
                      has_outputs,
                      outputs.size(),
                      std::min(statistics.queue_ns, run_statistics::max_ns),
                      std::min(statistics.compute_ns, run_statistics::max_ns),
                      std::clamp(statistics.batch, std::uint64_t{1}, run_statistics::max_batch)};
  words.reserve(reply_message_words(outputs.size()));
  for (const auto& output : outputs) append(words, output, replies);
  if (!have_different_numbers(outputs)) {
    throw std::invalid_argument("two outputs have the same number");
  }
  return words;
}

message_words encode_error(std::uint64_t number, request_status status, std::string_view text) {
  text = text.substr(0, max_error_bytes);
  message_words words{number, static_cast<std::uint64_t>(status) + 1, text.size()};
  words.resize(words.size() + (text.size() + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
  if (!text.empty()) std::memcpy(&words[3], text.data(), text.size());
  return words;
}

reply_message decode_reply(const message_words& words, arena_part replies) {
  word_reader reader(words);
  reply_message reply{.number = reader.next()};
  const auto kind = reader.next_up_to(last_status + 1);
  if (kind != has_outputs) {
    const auto size = reader.next_up_to(max_error_bytes);
    const auto packed =
        reader.next_words((size + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
    std::string text(size, '\0');
    if (size != 0) std::memcpy(text.data(), packed.data(), size);
    reply.error.emplace(static_cast<request_status>(kind - 1), valid_utf8(text));
  } else {
    const auto count = reader.next_up_to(tensor_descriptor::max_count);
    reply.statistics = read_statistics(reader);
    auto bytes_left = replies.bytes;
    for (std::uint64_t i = 0; i < count; ++i) {
      reply.outputs.push_back(read_tensor(reader, replies));
      if (reply.outputs.back().bytes > bytes_left) throw arena_fault("outputs overlap");
      bytes_left -= reply.outputs.back().bytes;
    }
    if (!have_different_numbers(reply.outputs)) {
      throw arena_fault("two outputs have the same number");
    }
  }
  reader.finish();
  return reply;
}

}  // namespace sluice::service
