// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace sluice::detail {

/// Copies `bytes` bytes from `source` to `destination`, past the caches where the processor can do
/// that. The ranges must not overlap.
///
/// A plain copy of more than the caches hold reads each line of `destination` before it writes it,
/// and writes it back later. This one only writes it, and is about twice as fast. The bytes are not
/// in a cache afterwards. They are ordered before later stores of this thread.
void uncached_copy(std::byte* destination, const std::byte* source, std::size_t bytes) noexcept;

}  // namespace sluice::detail
