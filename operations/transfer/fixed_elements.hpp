// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/host_tensor.hpp>

namespace sluice::detail {

/// Tensors in host memory that nobody writes any more. Programs share such constants on a device,
/// and a host device computes with them where they are. Thread-safe.
struct SLUICE_EXPORT fixed_elements {
  /// Marks the memory of a tensor, and so all tensors that share it. The caller promises that
  /// nobody will write the elements. Does nothing if the tensor has not allocated its memory
  /// itself: other memory may not be aligned as that of a device.
  static void fix(const host_tensor& elements) noexcept;
  [[nodiscard]] static bool are_fixed(const host_tensor& elements) noexcept;
};

}  // namespace sluice::detail
