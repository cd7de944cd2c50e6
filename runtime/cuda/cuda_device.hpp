// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device.hpp>

#include <memory>
#include <string>

/// The door to the CUDA device. Includes no CUDA header, so that a build without the toolkit has
/// the same one; there `device_count` answers 0.
namespace sluice::cuda {

/// The number of usable GPUs; 0 without a driver. Never throws.
[[nodiscard]] int device_count() noexcept;
/// Why there is no GPU of this number, in words for a user.
[[nodiscard]] std::string why_absent(int ordinal);
[[nodiscard]] device_info describe(int ordinal);
/// Opens GPU `ordinal`. @throws error `invalid_argument`, `library_failure`
[[nodiscard]] std::shared_ptr<device> open(int ordinal);

}  // namespace sluice::cuda
