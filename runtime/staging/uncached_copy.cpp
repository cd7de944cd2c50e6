// SPDX-License-Identifier: Apache-2.0
#include "runtime/staging/uncached_copy.hpp"

#include "runtime/base/sanitizers.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

// ThreadSanitizer and AddressSanitizer do not see stores by these instructions.
#if defined(__SSE2__) && !defined(SLUICE_THREAD_SANITIZER) && !defined(SLUICE_ADDRESS_SANITIZER)
#define SLUICE_HAS_UNCACHED_STORES 1
#include <emmintrin.h>
#else
#define SLUICE_HAS_UNCACHED_STORES 0
#endif

namespace sluice::detail {

void uncached_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
#if SLUICE_HAS_UNCACHED_STORES
  constexpr std::size_t line = 64;
  const auto misaligned = reinterpret_cast<std::uintptr_t>(to) % line;
  const auto before = std::min(bytes, misaligned == 0 ? 0 : line - misaligned);
  std::memcpy(to, from, before);
  to += before;
  from += before;
  bytes -= before;
  for (; bytes >= line; to += line, from += line, bytes -= line) {
    const auto* const source = reinterpret_cast<const __m128i*>(from);
    auto* const target = reinterpret_cast<__m128i*>(to);
    const auto a = _mm_loadu_si128(source);
    const auto b = _mm_loadu_si128(source + 1);
    const auto c = _mm_loadu_si128(source + 2);
    const auto d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  _mm_sfence();
#endif
  std::memcpy(to, from, bytes);
}

}  // namespace sluice::detail
