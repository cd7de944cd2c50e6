// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/executor/prices.hpp"

#include <sluice/operations/operation_request.hpp>
#include <sluice/runtime/device_runtime.hpp>

#include <cstddef>

namespace sluice::operations {

/// Checks an inferred request before it takes a place in the queue: its memory, its call, its work,
/// its options and its operands. New outputs and packed copies may not exceed `device_bytes`, the
/// memory of the device, because no plan is made for such a request. Returns the work.
/// @throws error with the reason why the request is refused
double check_request(const detail::operation_request& request, const device_runtime& runtime,
                     const price_limits& prices, std::size_t device_bytes);

}  // namespace sluice::operations
