// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

namespace sluice::test {

/// Whether the process runs under NVIDIA's compute-sanitizer. CONTRIBUTING.md runs it with
/// SLUICE_EXPLICIT_WAITS=1.
inline bool under_compute_sanitizer() {
  const char* value = std::getenv("SLUICE_EXPLICIT_WAITS");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace sluice::test

/// Skips the test under compute-sanitizer. The output names the reason `because`.
#define SLUICE_SKIP_UNDER_COMPUTE_SANITIZER(because) \
  if (::sluice::test::under_compute_sanitizer())     \
  GTEST_SKIP() << "not under compute-sanitizer: " << (because)
