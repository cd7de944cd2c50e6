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

void uncached_copy(std::byte* destination, const std::byte* source, std::size_t bytes) noexcept {
#if SLUICE_HAS_UNCACHED_STORES
  constexpr std::size_t line = 64;
  const auto misaligned = reinterpret_cast<std::uintptr_t>(destination) % line;
  const auto head = std::min(bytes, misaligned == 0 ? 0 : line - misaligned);
  std::memcpy(destination, source, head);
  destination += head;
  source += head;
  bytes -= head;
  for (; bytes >= line; destination += line, source += line, bytes -= line) {
    const auto* const source_line = reinterpret_cast<const __m128i*>(source);
    auto* const target_line = reinterpret_cast<__m128i*>(destination);
    const auto a = _mm_loadu_si128(source_line);
    const auto b = _mm_loadu_si128(source_line + 1);
    const auto c = _mm_loadu_si128(source_line + 2);
    const auto d = _mm_loadu_si128(source_line + 3);
    _mm_stream_si128(target_line, a);
    _mm_stream_si128(target_line + 1, b);
    _mm_stream_si128(target_line + 2, c);
    _mm_stream_si128(target_line + 3, d);
  }
  _mm_sfence();
#endif
  std::memcpy(destination, source, bytes);
}

}  // namespace sluice::detail
