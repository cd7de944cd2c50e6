// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/arena/arena_layout.hpp"
#include "service/arena/message_words.hpp"
#include "service/protocol/datatype.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::service {

/// A tensor in the shared memory, row-major without gaps.
struct tensor_descriptor {
  static constexpr std::size_t max_rank = 8;
  /// The number of an input or an output is smaller.
  static constexpr std::uint32_t max_count = 256;

  std::uint32_t number = 0;  ///< of the input or output of the model
  datatype type = datatype::fp32;
  std::vector<std::int64_t> shape{};
  std::uint64_t offset = 0;  ///< from the beginning of the memory; a multiple of 256
  std::uint64_t bytes = 0;
};

/// The most 64-bit words that a tensor takes in a message.
inline constexpr std::size_t tensor_words = 5 + tensor_descriptor::max_rank;

/// What makes the tensor impossible, or null: its number, its shape, a size that differs from that
/// of the elements, or elements outside of the part of the memory.
[[nodiscard]] const char* defect_of(const tensor_descriptor& tensor, arena_part part) noexcept;

/// Appends the tensor to a message.
/// @throws std::invalid_argument if it has a defect
void append(message_words& message, const tensor_descriptor& tensor, arena_part part);

/// Reads a tensor from a message.
/// @throws arena_fault if it has a defect
[[nodiscard]] tensor_descriptor read_tensor(word_reader& message, arena_part part);

}  // namespace sluice::service
