// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace sluice::service {

/// The memory in bytes that this machine has left for new processes, or the control groups of this
/// process if they have less. Nearly 2^64 where the kernel does not tell.
[[nodiscard]] std::uint64_t available_host_memory();

}  // namespace sluice::service
