// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/concatenate_functions.hpp"
#include "operations/elementwise/streamed_stores.hpp"
#include "runtime/seam.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice::host {
namespace {

/// Copies the bytes from `begin` to `end` of y.
void copy_bytes(const operations::concatenate_call& call,
                const operations::concatenate_addresses& addresses, std::int64_t begin,
                std::int64_t end) {
  auto row = begin / call.row_bytes;
  auto column = begin % call.row_bytes;
  int piece = 0;
  while (column >= call.piece_bytes[piece]) column -= call.piece_bytes[piece++];
  auto* y = static_cast<std::byte*>(addresses.y) + begin;
  const auto size = call.rows * call.row_bytes;
  while (begin < end) {
    const auto bytes = call.piece_bytes[piece];
    const auto count = std::min(bytes - column, end - begin);
    const auto* const x = static_cast<const std::byte*>(addresses.x[piece]) + row * bytes + column;
    if (is_streamed(size, count)) {
      stream_bytes(x, static_cast<std::size_t>(count), y);
    } else if (count != 0) {
      std::memcpy(y, x, static_cast<std::size_t>(count));
    }
    y += count;
    begin += count;
    column = 0;
    if (++piece == call.pieces) {
      piece = 0;
      ++row;
    }
  }
  if (is_streamed(size)) finish_streams();
}

/// The bytes of a piece of a row if all pieces have the same size, which is that of a number;
/// otherwise 0.
std::int64_t bytes_of_small_pieces(const operations::concatenate_call& call) noexcept {
  const auto bytes = call.piece_bytes[0];
  const auto* const first = call.piece_bytes.data();
  const bool are_equal =
      std::all_of(first, first + call.pieces, [&](std::int64_t other) { return other == bytes; });
  return are_equal && (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8) ? bytes : 0;
}

/// Copies the rows from `begin` to `end`, whose pieces have `Bytes` bytes. The pieces need not be
/// aligned.
template <std::size_t Bytes>
void interleave(const operations::concatenate_call& call,
                const operations::concatenate_addresses& addresses, std::int64_t begin,
                std::int64_t end) {
  constexpr std::int64_t cached_bytes = 1 << 14;  // of y, which all pieces are written to
  const auto block = std::max<std::int64_t>(cached_bytes / call.row_bytes, 1);
  for (; begin < end; begin += block) {
    const auto rows = std::min(block, end - begin);
    for (int piece = 0; piece < call.pieces; ++piece) {
      constexpr auto distance = static_cast<std::int64_t>(Bytes);
      const auto* x = static_cast<const std::byte*>(addresses.x[piece]) + begin * distance;
      auto* y = static_cast<std::byte*>(addresses.y) + (begin * call.pieces + piece) * distance;
      for (std::int64_t row = 0; row < rows; ++row, x += distance, y += call.row_bytes) {
        std::memcpy(y, x, Bytes);
      }
    }
  }
}
void interleave(const operations::concatenate_call& call,
                const operations::concatenate_addresses& addresses, std::int64_t bytes,
                std::int64_t begin, std::int64_t end) {
  switch (bytes) {
    case 1:
      return interleave<1>(call, addresses, begin, end);
    case 2:
      return interleave<2>(call, addresses, begin, end);
    case 4:
      return interleave<4>(call, addresses, begin, end);
    default:
      return interleave<8>(call, addresses, begin, end);
  }
}

}  // namespace

void compute_concatenate(const operations::concatenate_call& call,
                         const operations::concatenate_addresses& addresses) {
  constexpr double nanoseconds_of_byte = 0.1;
  constexpr std::int64_t page = 4096;
  if (const auto bytes = bytes_of_small_pieces(call); bytes != 0) {
    constexpr double nanoseconds_of_element = 0.5;
    const work_chunks chunks(call.rows, nanoseconds_of_element * call.pieces, page);
    return parallel_for(chunks.count(), [&](std::int64_t i) {
      const auto [begin, end] = chunks[i];
      interleave(call, addresses, bytes, begin, end);
    });
  }
  const work_chunks chunks(call.rows * call.row_bytes, nanoseconds_of_byte, page);
  parallel_for(chunks.count(), [&](std::int64_t i) {
    const auto [begin, end] = chunks[i];
    copy_bytes(call, addresses, begin, end);
  });
}

}  // namespace sluice::host
