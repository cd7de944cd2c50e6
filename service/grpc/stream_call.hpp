// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/grpc/awaited_run.hpp"
#include "service/grpc/call_admission.hpp"
#include "service/grpc/connection_numbers.hpp"
#include "service/grpc/grpc_context.hpp"
#include "service/grpc/infer_message.hpp"
#include "service/grpc/infer_submission.hpp"
#include "service/grpc/streaming_call.hpp"

#include <grpcpp/server_context.h>

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>

namespace sluice::service {

/// A call of `ModelStreamInfer`. Each request needs a token that is valid then; the stream ends
/// otherwise. It also ends if the budget of replies does not allow the error of a request.
class stream_call final : public streaming_call {
 public:
  stream_call(grpc_context& context, grpc::CallbackServerContext& call, call_admission admission);

 private:
  using runs = std::map<std::uint64_t, std::shared_ptr<awaited_run>>;

  void receive(wire_reader bytes) override;
  void on_hang_up() noexcept override;
  void copy_and_submit(infer_submission submission,
                       const std::shared_ptr<infer_message>& message) noexcept;
  void submit(infer_submission submission, const std::shared_ptr<infer_message>& message);
  void receive_result(std::uint64_t run, const infer_message& message, run_result result) noexcept;
  void reply(const infer_message& message, run_result result) noexcept;
  void answer_failure(const infer_message& message, const std::exception_ptr& failure) noexcept;

  grpc_context& context_;
  const call_admission admission_;
  const connection_numbers::holder connection_;
  const request_sender sender_;  ///< without its tenant
  std::mutex mutex_{};
  runs runs_{};              ///< in flight; guarded by mutex_
  std::uint64_t count_ = 0;  ///< guarded by mutex_
  bool is_hung_up_ = false;  ///< guarded by mutex_
};

}  // namespace sluice::service
