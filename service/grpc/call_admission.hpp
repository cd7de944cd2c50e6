// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/access_policy.hpp"
#include "service/grpc/grpc_options.hpp"
#include "service/protocol/trace_context.hpp"

#include <grpcpp/server_context.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::service {

/// Whether the client of a call, as `grpc::ServerContext::peer` names it, is on this machine.
[[nodiscard]] bool is_loopback_peer(std::string_view peer);

/// What the metadata of a call tell about its client, and what the client must be allowed to do.
class call_admission {
 public:
  /// @throws request_error as `admit`; `unauthenticated` if the field `authorization` occurs twice
  call_admission(const grpc_options& options, const grpc::CallbackServerContext& call,
                 access_role needed);

  /// The tenant of the call; empty: a client without a name.
  [[nodiscard]] const std::string& tenant() const noexcept { return tenant_; }
  /// The trace of the call, from the field `traceparent`; the first one if there are several.
  [[nodiscard]] const std::optional<trace_context>& trace() const noexcept { return trace_; }
  /// The tenant according to the tokens of now, which may be others than at the beginning.
  /// @throws request_error as `access_policy::admit`
  [[nodiscard]] std::string admit() const;

 private:
  std::shared_ptr<const access_policy> policy_;
  access_role needed_;
  connection_origin origin_{};
  std::string authorization_{};
  std::string tenant_{};
  std::optional<trace_context> trace_{};
};

}  // namespace sluice::service
