// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/grpc/unary_call.hpp"

#include <cstdint>
#include <string>
#include <utility>

namespace sluice::service {

/// What a request about system shared memory asks for.
enum class region_action : std::uint8_t { status, add, remove };

/// A call about the regions of system shared memory of a tenant.
class region_call final : public unary_call {
 public:
  region_call(grpc_context& context, grpc::CallbackServerContext& call, std::string tenant,
              region_action action)
      : unary_call(context, call), tenant_(std::move(tenant)), action_(action) {}

 private:
  void answer(wire_reader request) override;

  const std::string tenant_;
  const region_action action_;
};

}  // namespace sluice::service
