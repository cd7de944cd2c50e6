// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/grpc/grpc_context.hpp"
#include "service/grpc/message_buffer.hpp"
#include "service/grpc/reflection_message.hpp"
#include "service/grpc/streaming_call.hpp"

namespace sluice::service {

/// A call of `ServerReflectionInfo`, which describes the services to clients without their files.
class reflection_call final : public streaming_call {
 public:
  reflection_call(grpc_context& context, grpc::CallbackServerContext& call)
      : streaming_call(context.sends, call, 1), replies_(context.replies) {}

 private:
  void receive(wire_reader message) override {
    const auto reply = to_byte_buffer(reflection_message(message));
    answer(reply, charge_for(reply, replies_));
  }

  byte_budget& replies_;
};

}  // namespace sluice::service
