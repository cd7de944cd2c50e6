// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/arena/tensor_descriptor.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::service {

/// A request of the front to a worker: run a model.
struct run_message {
  std::uint64_t number = 0;  ///< of the request; below 2^63
  std::uint32_t model = 0;   ///< the handle that front and worker agreed on
  std::vector<tensor_descriptor> inputs{};
  std::vector<std::uint32_t> outputs{};  ///< numbers, ascending; empty: all outputs of the model
  std::uint64_t priority = 0;            ///< as in `run_request`
  std::uint64_t deadline_ns = 0;         ///< on CLOCK_MONOTONIC; 0: none
  std::uint64_t tenant = 0;
  std::uint64_t connection = 0;
};

/// The most words of a message with this many inputs.
[[nodiscard]] std::size_t run_message_words(std::size_t inputs) noexcept;

/// The message in words. The inputs lie in the part of the memory.
/// @throws std::invalid_argument if an input has a defect, or a number is too large or out of order
[[nodiscard]] message_words encode(const run_message& message, arena_part requests);

/// The inverse of `encode`.
/// @throws arena_fault if the words are no such message
[[nodiscard]] run_message decode_run(const message_words& words, arena_part requests);

}  // namespace sluice::service
