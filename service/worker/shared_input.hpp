// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/device_service.hpp>
#include <sluice/operations/run.hpp>

namespace sluice::service {

/// The input for a run on a device. A host device reads a large input where it lies, in the memory
/// that the worker shares with the front, without a copy. Other inputs stay as they are. The owner
/// of the elements is destroyed once nothing reads them any more.
/// @throws error as `import_dlpack`
[[nodiscard]] run_input shared_input(device_service& service, run_input&& input);

}  // namespace sluice::service
