// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/grpc/wire_reader.hpp"

#include <string>

namespace sluice::service {

/// Answers `ServerReflectionRequest` of `grpc.reflection.v1` and `v1alpha`, which have the same
/// messages, with `ServerReflectionResponse`.
/// @throws request_error `invalid_argument` if the bytes are malformed, `too_large` above 64 KiB
[[nodiscard]] std::string reflection_message(wire_reader request);

}  // namespace sluice::service
