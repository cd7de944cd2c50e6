// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/chunk_decoder.hpp"
#include "service/front/inflater.hpp"
#include "service/front/request_head.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace sluice::service {

/// Decodes the body of one request from the bytes of its connection.
class request_body {
 public:
  /// How far one call of `decode` got.
  struct progress {
    std::size_t consumed = 0;  ///< of the input
    std::size_t written = 0;   ///< to the output
  };

  request_body() = default;  ///< an empty body
  /// A body of at most `limit` bytes, as sent and after decompression.
  request_body(const request_head& head, std::uint64_t limit);

  /// Decodes until the output is full, the input is used up or the body has ended. What follows the
  /// body is not consumed.
  /// @throws http_error 400 if the body is malformed, 413 above the limit
  progress decode(std::span<const std::byte> input, std::span<std::byte> output);

  /// Whether the whole body has been decoded.
  [[nodiscard]] bool is_done() const noexcept;
  /// The bytes that are left, if the body is sent as it is: nothing for chunks and compression.
  [[nodiscard]] std::optional<std::uint64_t> plain_bytes() const noexcept;
  /// Accounts for bytes of a plain body that the caller took itself. Not more than are left.
  void take_plain(std::uint64_t bytes) noexcept { left_ -= bytes; }

 private:
  progress decode_data(std::span<const std::byte> input, std::span<std::byte> output);
  [[nodiscard]] bool is_framing_done() const noexcept;
  void count(std::uint64_t& total, std::uint64_t bytes) const;

  std::optional<chunk_decoder> chunks_{};
  std::optional<inflater> inflater_{};
  std::uint64_t left_ = 0;  ///< of a body that is not chunked
  std::uint64_t limit_ = 0;
  std::uint64_t sent_ = 0;     ///< bytes of data in chunks so far
  std::uint64_t decoded_ = 0;  ///< bytes after decompression so far
};

}  // namespace sluice::service
