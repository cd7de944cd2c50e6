// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/http_reply.hpp"
#include "service/front/model_backend.hpp"
#include "service/front/routes.hpp"
#include "service/front/tensor_regions.hpp"
#include "service/protocol/inference_request.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace sluice::service {

/// The earlier of `deadline` and the timeout of the request, counted from `begin`.
[[nodiscard]] std::optional<std::chrono::steady_clock::time_point> deadline_of(
    const inference_request& request, std::chrono::steady_clock::time_point begin,
    std::optional<std::chrono::steady_clock::time_point> deadline);

/// The run that a request asks for.
[[nodiscard]] run_request make_run(const inference_request& request, const route& model,
                                   std::optional<std::chrono::steady_clock::time_point> deadline,
                                   std::uint64_t connection);

/// The bytes of the outputs that the reply has as JSON.
[[nodiscard]] std::size_t json_output_bytes(const inference_request& request,
                                            const run_result& result);

/// The reply with the results of a run, or with its error. The bytes of binary outputs are not
/// copied; those that belong in shared memory are written there.
[[nodiscard]] http_reply make_run_reply(const inference_request& request,
                                        const tensor_regions& regions, const route& model,
                                        run_result result);

}  // namespace sluice::service
