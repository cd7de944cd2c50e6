// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/session.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace sluice::cli {

/// For each kind of requests, the number of replies of each kind: "ok" or the code of the error.
using hostile_replies = std::map<std::string, std::map<std::string, std::uint64_t>>;

/// Calls `work` beside a client that keeps `bench_in_flight` requests in flight, a quarter of each
/// kind, and returns the replies to them:
///
/// * refused: a `gemm` of matrices that do not fit, to the blas actor;
/// * failing: in turn an operation that throws when it is launched, and a `fill` of more memory
///   than any device has, to the device actor;
/// * unplannable: an `fft` whose plan exceeds the limits of an executor, each time another one, to
///   the fft actor;
/// * large: an `add` of 4 MiB, to the elementwise actor.
///
/// @throws error the error of a reply to a request that makes the operands, and what `work` throws
[[nodiscard]] hostile_replies beside_hostile_client(session& current,
                                                    const std::function<void()>& work);

}  // namespace sluice::cli
