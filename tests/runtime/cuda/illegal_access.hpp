// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace sluice::test {

/// Launches a kernel on `stream` (a `cudaStream_t`) that writes to an address nobody owns: a sticky
/// fault, after which the process can use no GPU any more. Returns the launch's `cudaError_t`.
int launch_illegal_access(void* stream) noexcept;

/// Loads that kernel, which waits for all that the GPU has to do: before any of it is held back.
/// Returns a `cudaError_t`.
int load_illegal_access() noexcept;

}  // namespace sluice::test
