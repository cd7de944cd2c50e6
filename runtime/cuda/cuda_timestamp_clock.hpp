// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device.hpp>

#include <memory>

namespace sluice::cuda {

/// Makes a clock that relates the timestamps of `device` to the host's clock.
/// @throws error `library_failure`
/// @throws error `device_lost`
[[nodiscard]] std::unique_ptr<timestamp_clock> make_clock(device& device);

}  // namespace sluice::cuda
