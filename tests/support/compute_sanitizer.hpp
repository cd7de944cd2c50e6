// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

namespace sluice::test {

/// Whether NVIDIA's compute-sanitizer watches this process: it is run with SLUICE_EXPLICIT_WAITS=1
/// (see CONTRIBUTING.md).
inline bool under_compute_sanitizer() {
  const char* value = std::getenv("SLUICE_EXPLICIT_WAITS");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace sluice::test

/// Skips the test, visibly, under compute-sanitizer, because of what that does.
#define SLUICE_SKIP_UNDER_COMPUTE_SANITIZER(because) \
  if (::sluice::test::under_compute_sanitizer())     \
  GTEST_SKIP() << "not under compute-sanitizer: " << (because)
