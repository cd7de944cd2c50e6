// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/arena/run_statistics.hpp"
#include "service/arena/tensor_descriptor.hpp"
#include "service/protocol/request_error.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::service {

/// The answer of a worker to a request: outputs, or an error.
struct reply_message {
  std::uint64_t number = 0;  ///< of the request
  std::optional<request_error> error{};
  std::vector<tensor_descriptor> outputs{};  ///< no number twice
  run_statistics statistics{};               ///< of a run with outputs
};

/// The most bytes of the text of an error.
inline constexpr std::size_t max_error_bytes = 4096;
/// The most words of any reply.
inline constexpr std::size_t max_reply_words =
    6 + tensor_descriptor::max_count * tensor_words + max_error_bytes / sizeof(std::uint64_t);

/// The most words of a reply with this many outputs.
[[nodiscard]] std::size_t reply_message_words(std::size_t outputs) noexcept;

/// A reply with outputs, which lie in the part of the memory. Statistics above their limits become
/// the limits.
/// @throws std::invalid_argument if an output has a defect, or if two have the same number
[[nodiscard]] message_words encode_outputs(std::uint64_t number,
                                           const std::vector<tensor_descriptor>& outputs,
                                           arena_part replies,
                                           const run_statistics& statistics = {});
/// A reply with an error. The text is cut to `max_error_bytes`.
[[nodiscard]] message_words encode_error(std::uint64_t number, request_status status,
                                         std::string_view text);

/// Checks and reads a reply of a worker, which may consist of any words. Texts become valid UTF-8.
/// @throws arena_fault if the words are no reply, or if an output does not lie in the part of the
/// memory, has a size that differs from its shape, or has the number of another one, or if the
/// outputs have more bytes than the part, or if a number of the statistics is out of range
[[nodiscard]] reply_message decode_reply(const message_words& words, arena_part replies);

}  // namespace sluice::service
