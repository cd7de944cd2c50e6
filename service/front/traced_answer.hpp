// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/model_backend.hpp"

#include <functional>
#include <string>

namespace sluice::service {

/// A function that writes the outcome of a request and its times to the log, with the trace of its
/// client, and then calls `done`. At most `most_traced_requests` lines of a second are written.
[[nodiscard]] std::function<void(run_result)> traced_answer(std::function<void(run_result)> done,
                                                            trace_context trace, std::string model);

inline constexpr unsigned most_traced_requests = 100;

}  // namespace sluice::service
