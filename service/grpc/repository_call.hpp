// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/grpc/awaiting_call.hpp"

#include <cstdint>

namespace sluice::service {

/// What a request about the repository asks for.
enum class repository_action : std::uint8_t { load, unload };

/// A call of `RepositoryModelLoad` or `RepositoryModelUnload`. What it has begun goes on if the
/// client hangs up.
class repository_call final : public awaiting_call {
 public:
  repository_call(grpc_context& context, grpc::CallbackServerContext& call,
                  repository_action action)
      : awaiting_call(context, call), action_(action) {}

 private:
  void answer(wire_reader request) override;

  const repository_action action_;
};

}  // namespace sluice::service
