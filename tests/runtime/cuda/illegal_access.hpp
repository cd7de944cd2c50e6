// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace sluice::test {

/// Launches a kernel on `stream` (a `cudaStream_t`) that writes to an illegal address. Returns the
/// `cudaError_t` of the launch.
///
/// The fault is sticky: the process can use no GPU afterwards.
int launch_illegal_access(void* stream) noexcept;

/// Loads that kernel. Returns a `cudaError_t`.
///
/// Loading waits for all work on the GPU, so call it before a gate is closed.
int load_illegal_access() noexcept;

}  // namespace sluice::test
