// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/host_device_code.hpp>

#include <cstdint>

// Kernels include this header, so it compiles as C++17.
namespace sluice {

/// What a launch has found wrong in its operands while it ran. It lies in pinned memory. The launch
/// writes it, and the runtime reads it once the work of the launch has completed.
struct alignas(64) error_word {
  std::uint32_t found = 0;    ///< 1 if the other members are set
  std::uint32_t step = 0;     ///< of a program
  std::uint32_t operand = 0;  ///< number of the operand among those of the operation
  std::int64_t index = 0;     ///< the index that is out of range
  std::int64_t offset = 0;    ///< its distance from the first element of the operand, in elements
  std::int64_t extent = 0;    ///< the extent that it does not fit
};

/// Reports an index of one operand that is out of range. Trivially copyable, so that kernels take
/// it as an argument.
///
///     if (index >= extent) indices.report(index, offset, extent);
///
/// A report makes the launch fail with `invalid_argument` when it has completed. The launch goes on
/// meanwhile, so it must use another index instead. Of several reports, the launch keeps the first
/// one, which on a GPU is any of them. Thread-safe.
struct index_report {
  error_word* word = nullptr;  ///< of the launch; nullptr: nothing is reported
  std::uint32_t step = 0;      ///< of a program
  std::uint32_t operand = 0;   ///< number of the operand

  /// Reports `index`, which is `offset` elements behind the first index and not within `extent`.
  SLUICE_HOST_DEVICE void report(std::int64_t index, std::int64_t offset,
                                 std::int64_t extent) const noexcept {
    if (word == nullptr) return;
#if defined(__CUDA_ARCH__)
    // One thread wins and writes the rest. The end of the kernel makes it visible to the host.
    if (*reinterpret_cast<volatile std::uint32_t*>(&word->found) != 0) return;
    if (atomicCAS(&word->found, 0U, 1U) != 0) return;
#else
    std::uint32_t nothing = 0;
    if (!__atomic_compare_exchange_n(&word->found, &nothing, 1U, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED)) {
      return;
    }
#endif
    word->step = step;
    word->operand = operand;
    word->index = index;
    word->offset = offset;
    word->extent = extent;
#if defined(__CUDA_ARCH__)
    __threadfence_system();
#endif
  }
};

}  // namespace sluice
