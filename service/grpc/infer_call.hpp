// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/grpc/awaited_run.hpp"
#include "service/grpc/connection_numbers.hpp"
#include "service/grpc/grpc_context.hpp"
#include "service/grpc/infer_message.hpp"
#include "service/grpc/unary_call.hpp"

#include <memory>
#include <mutex>

namespace sluice::service {

/// A call of `ModelInfer`.
class infer_call final : public unary_call {
 public:
  infer_call(grpc_context& context, grpc::CallbackServerContext& call);

  void OnCancel() override;

 private:
  void answer(wire_reader request) override;
  void receive(run_result result) noexcept;
  void reply(run_result result) noexcept;

  grpc_context& context_;
  const std::optional<std::chrono::steady_clock::time_point> deadline_;
  const connection_numbers::holder connection_;
  infer_message message_{};
  std::mutex mutex_{};
  std::shared_ptr<awaited_run> run_{};  ///< guarded by mutex_
  bool is_cancelled_ = false;           ///< guarded by mutex_
};

}  // namespace sluice::service
