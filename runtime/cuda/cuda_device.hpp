// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device.hpp>

#include <memory>
#include <string>

/// The interface to the CUDA device. It includes no CUDA header, so a build without the toolkit has
/// the same one. There `device_count` returns 0.
namespace sluice::cuda {

/// The number of usable GPUs. 0 without a driver. Never throws.
[[nodiscard]] int device_count() noexcept;
/// Why there is no GPU with this number, as a text for users.
[[nodiscard]] std::string why_absent(int ordinal);
[[nodiscard]] device_info describe(int ordinal);
/// Opens GPU `ordinal`.
/// @throws error `invalid_argument` if there is no such GPU
/// @throws error `library_failure`
[[nodiscard]] std::shared_ptr<device> open(int ordinal);

}  // namespace sluice::cuda
