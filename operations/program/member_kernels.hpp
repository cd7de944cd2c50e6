// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace sluice {
struct native_stream;
}

namespace sluice::operations {

/// The addresses of the members of a batch, as an argument of a kernel.
struct member_addresses {
  static constexpr std::size_t max_count = 128;
  void* of[max_count];
};

/// Loads the kernels. Returns a `cudaError_t`.
[[nodiscard]] int load_member_kernels();
/// Queues copies of `bytes` bytes from each of `members` addresses to `to`, one behind the other,
/// and zeros up to `count` of them, on a stream of the current device. `members` is from 1 to
/// `count`, and `bytes` is not 0. Returns a `cudaError_t`.
[[nodiscard]] int launch_gather(const member_addresses& from, std::size_t members, void* to,
                                std::size_t bytes, std::size_t count, native_stream* stream);
/// Queues copies of `bytes` bytes from `from`, one behind the other, to each of `members`
/// addresses. Likewise.
[[nodiscard]] int launch_scatter(const void* from, const member_addresses& to, std::size_t members,
                                 std::size_t bytes, native_stream* stream);

}  // namespace sluice::operations
