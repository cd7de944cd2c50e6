// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/device_service.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/runtime/extents.hpp>

#include <memory>

namespace sluice::service {

/// An input whose row-major elements lie in memory that the worker shares with the front. Runs on a
/// host device read large inputs there, without a copy. `elements` is destroyed once nothing reads
/// them any more.
/// @throws error as `import_dlpack` and `host_tensor::external`
[[nodiscard]] run_input shared_input(device_service& service, std::shared_ptr<void> elements,
                                     element_type type, const extents& shape);

}  // namespace sluice::service
