// SPDX-License-Identifier: Apache-2.0
#pragma once

// The targets of Highway for which the loops of the host device are compiled. Include it before any
// header of Highway.

#include "runtime/seam.hpp"

// ThreadSanitizer does not see accesses of more than 16 bytes. AddressSanitizer judges the vectors
// of one size, because Clang needs a minute for each.
#if defined(SLUICE_THREAD_SANITIZER)
#define SLUICE_VECTORS HWY_SSE4
#elif defined(SLUICE_ADDRESS_SANITIZER)
#define SLUICE_VECTORS HWY_AVX2
#else
#define SLUICE_VECTORS (HWY_SSE4 | HWY_AVX2 | HWY_AVX3)
#endif

// Further targets have vectors of the same sizes, which would make the library larger and hardly
// faster, or vectors without a size at compile time, which cannot be members.
#define HWY_DISABLED_TARGETS (~(HWY_SCALAR | HWY_EMU128 | HWY_NEON | SLUICE_VECTORS))

// The compiler vectorizes most loops, so that the functors stay those of all devices. No iteration
// of a loop that is marked depends on another one. Clang compares the addresses instead: it warns
// where it does not vectorize such a loop.
#if defined(__clang__)
#define SLUICE_INDEPENDENT
#else
#define SLUICE_INDEPENDENT _Pragma("GCC ivdep")
#endif
