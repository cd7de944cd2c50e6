// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::cuda {

/// The version of the compiler of kernels, as "13.0": that with which the library was built. The
/// functions of another one may differ in the last bits.
[[nodiscard]] std::string kernel_compiler_version();

/// Loads the compiler, unless that has been done. It stays loaded.
/// @throws error `unsupported` if there is none of this version
void load_kernel_compiler();

/// Compiles the text of a kernel for GPUs of a compute capability, as 90, with the headers that the
/// library contains. Takes tens of milliseconds, and no GPU. The compiler is NVRTC, a library of
/// the CUDA toolkit, which is loaded when it is first needed.
/// @throws error `unsupported` if there is no compiler of this version, or it does not know the
/// GPUs
/// @throws error `library_failure` with what the compiler reports
[[nodiscard]] std::vector<char> compile_kernel(const std::string& text, int architecture);

/// A number for the headers that the library contains: kernels that were compiled with others
/// differ.
[[nodiscard]] std::uint64_t version_of_kernel_headers() noexcept;

}  // namespace sluice::cuda
