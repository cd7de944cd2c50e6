// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::service {

/// Finds the data in a body of the transfer coding `chunked`, which may arrive in pieces of any
/// size.
///
/// Extensions of chunks and trailers are checked, bounded and dropped.
class chunk_decoder {
 public:
  /// Skips what frames the next data.
  /// @returns how many bytes were skipped; data follows if `available()` > 0
  /// @throws http_error 400 if the framing is malformed or longer than the data can explain
  std::size_t skip_framing(std::span<const std::byte> input);
  /// Bytes of data of the current chunk that have not been taken.
  [[nodiscard]] std::uint64_t available() const noexcept { return available_; }
  /// Takes data. Not more than `available()`.
  void take(std::uint64_t bytes) noexcept { available_ -= bytes; }
  /// Whether the body has ended.
  [[nodiscard]] bool is_done() const noexcept { return state_ == state::done; }

 private:
  enum class state : std::uint8_t {
    size,
    extension,
    size_end,
    data,
    data_end,
    data_line_end,
    trailer_start,
    trailer,
    trailer_end,
    last_end,
    done
  };
  void step(unsigned char c);
  void count_framing();

  state state_ = state::size;
  unsigned digits_ = 0;          ///< of the size
  std::uint64_t size_ = 0;       ///< of the chunk that is being announced
  std::uint64_t available_ = 0;  ///< of the current chunk
  std::uint64_t excess_ = 0;     ///< framing beyond the usual for the data
};

}  // namespace sluice::service
