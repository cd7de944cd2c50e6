#pragma once

#include <cstdint>

namespace sluice::bench {

/// How often the calling thread has asked the heap for memory (`operator new`) so far.
[[nodiscard]] std::uint64_t allocations_of_this_thread() noexcept;

}  // namespace sluice::bench
