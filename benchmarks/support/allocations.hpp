// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace sluice::bench {

/// The number of calls of `operator new` by the calling thread so far.
[[nodiscard]] std::uint64_t allocations_of_this_thread() noexcept;

}  // namespace sluice::bench
