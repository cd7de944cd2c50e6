// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/sanitizers.hpp"

#include <cstddef>
#include <malloc.h>

namespace sluice::test {

/// Bytes in use on the process's heap. 0 where a sanitizer replaces the heap.
[[nodiscard]] inline std::size_t heap_in_use() {
#if defined(SLUICE_ADDRESS_SANITIZER) || defined(SLUICE_THREAD_SANITIZER) || !defined(__GLIBC__)
  return 0;
#else
  const auto all = mallinfo2();
  return all.uordblks + all.hblkhd;
#endif
}

}  // namespace sluice::test
