// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/model_backend.hpp"

#include <cstdint>
#include <functional>
#include <memory>

namespace sluice::service {

/// Counts a request that begins now, and returns a function that counts its answer and then calls
/// `done`. It must be called exactly once.
/// @param members  the extent of the batch of the request
[[nodiscard]] std::function<void(run_result)> counted_answer(
    std::function<void(run_result)> done, std::shared_ptr<model_statistics> statistics,
    std::uint64_t members);

}  // namespace sluice::service
