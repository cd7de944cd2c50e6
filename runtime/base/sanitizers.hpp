// SPDX-License-Identifier: Apache-2.0
#pragma once

// SLUICE_ADDRESS_SANITIZER and SLUICE_THREAD_SANITIZER are defined in builds with these sanitizers.
// GCC has macros of its own for this, and Clang has features.
#if defined(__SANITIZE_ADDRESS__)
#define SLUICE_ADDRESS_SANITIZER 1
#endif
#if defined(__SANITIZE_THREAD__)
#define SLUICE_THREAD_SANITIZER 1
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLUICE_ADDRESS_SANITIZER 1
#endif
#if __has_feature(thread_sanitizer)
#define SLUICE_THREAD_SANITIZER 1
#endif
#endif
