// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace sluice {

/// Which of the algorithms of a library a plan takes, where the library has several for the same
/// result. They may differ in the last bits.
enum class algorithm_policy : std::uint8_t {
  /// The fastest one. It is found by a trial while the plan is made, if nothing is in flight; see
  /// docs/concepts/plans_and_limits.md.
  fastest,
  /// The first one that the library proposes. On GPUs of one kind and with one version of the
  /// library, a request then has the same bits in every process.
  proposed,
};

}  // namespace sluice
