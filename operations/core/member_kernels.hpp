// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace sluice {
struct native_stream;
}

namespace sluice::operations {

/// The memory of the members of a batch, as an argument of a kernel: rows without gaps.
struct member_rows {
  static constexpr std::size_t max_count = 128;
  void* addresses[max_count];
  unsigned row_bytes[max_count];
  unsigned count;
};
/// Places of the members: `count` times `rows` rows of `row_bytes` bytes. The strides, in bytes,
/// are multiples of `row_bytes`.
struct place_shape {
  std::size_t count;
  std::size_t rows;
  std::size_t row_bytes;
  std::size_t place_stride;
  std::size_t row_stride;
};

/// Loads the kernels. Returns a `cudaError_t`.
[[nodiscard]] int load_member_kernels();
/// Queues copies from each member to its place at `destination`, and zeros into what is left of the
/// places, on a stream of the current device. There are from 1 to `places.count` members, and no
/// place is empty. Returns a `cudaError_t`.
[[nodiscard]] int launch_gather(const member_rows& sources, void* destination,
                                const place_shape& places, native_stream* stream);
/// Queues copies from the places at `source` to each member. Likewise.
[[nodiscard]] int launch_scatter(const void* source, const member_rows& destinations,
                                 const place_shape& places, native_stream* stream);

}  // namespace sluice::operations
