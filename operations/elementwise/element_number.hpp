// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

// Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

/// A number that stands for an input of a map: an element of the type of the other inputs, in the
/// first bytes. On the host, the input has the address of these bytes; on a GPU it has none, and
/// the number is an argument of the kernel.
struct element_number {
  std::int32_t input = -1;  ///< the number of the input that it stands for; -1: none
  alignas(16) unsigned char bytes[16]{};

  /// The number as `T`, which has at most 16 bytes.
  template <class T>
  [[nodiscard]] T bits() const noexcept {
    T value;
    static_assert(sizeof value <= sizeof bytes);
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
};

}  // namespace sluice::operations
