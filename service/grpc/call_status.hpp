// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/protocol/request_error.hpp"

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <exception>

namespace sluice::service {

/// The status code of gRPC.
[[nodiscard]] grpc::StatusCode grpc_status(request_status status) noexcept;

/// The error that an exception is to the client.
[[nodiscard]] request_error error_of(const std::exception_ptr& failure);

/// The status of a call that fails. If a retry may succeed, the trailing metadata of the call says
/// when, in the field of gRPC's retries.
[[nodiscard]] grpc::Status failed_status(const request_error& error,
                                         grpc::CallbackServerContext& call);

}  // namespace sluice::service
