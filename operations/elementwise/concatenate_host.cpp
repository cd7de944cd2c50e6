// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/concatenate_functions.hpp"
#include "operations/elementwise/streamed_stores.hpp"
#include "runtime/seam.hpp"

#include <algorithm>
#include <cstddef>
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

}  // namespace

void compute_concatenate(const operations::concatenate_call& call,
                         const operations::concatenate_addresses& addresses) {
  constexpr double nanoseconds_of_byte = 0.1;
  constexpr std::int64_t page = 4096;
  const work_chunks chunks(call.rows * call.row_bytes, nanoseconds_of_byte, page);
  parallel_for(chunks.count(), [&](std::int64_t i) {
    const auto [begin, end] = chunks[i];
    copy_bytes(call, addresses, begin, end);
  });
}

}  // namespace sluice::host
