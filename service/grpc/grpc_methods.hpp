// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/grpc/grpc_context.hpp"

#include <grpcpp/generic/async_generic_service.h>

namespace sluice::service {

/// The object that answers a call. A method that is not served is answered with UNIMPLEMENTED.
[[nodiscard]] grpc::ServerGenericBidiReactor* make_call(grpc_context& context,
                                                        grpc::GenericCallbackServerContext& call);

}  // namespace sluice::service
