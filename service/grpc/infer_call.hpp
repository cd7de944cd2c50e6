// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/grpc/awaiting_call.hpp"
#include "service/grpc/call_admission.hpp"
#include "service/grpc/connection_numbers.hpp"
#include "service/grpc/grpc_context.hpp"
#include "service/grpc/infer_message.hpp"
#include "service/grpc/infer_submission.hpp"

namespace sluice::service {

/// A call of `ModelInfer`.
class infer_call final : public awaiting_call {
 public:
  infer_call(grpc_context& context, grpc::CallbackServerContext& call,
             const call_admission& admission);

 private:
  void answer(wire_reader request) override;
  void copy_and_submit(infer_submission submission) noexcept;
  void submit(infer_submission submission);
  void receive(run_result result) noexcept;
  void reply(run_result result) noexcept;

  const connection_numbers::holder connection_;
  const request_sender sender_;
  infer_message message_{};
};

}  // namespace sluice::service
