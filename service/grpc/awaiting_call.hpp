// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/grpc/awaited_run.hpp"
#include "service/grpc/unary_call.hpp"

#include <functional>
#include <memory>
#include <mutex>

namespace sluice::service {

/// A unary call whose reply comes from the backend later. If the client hangs up first, the call
/// ends at once.
class awaiting_call : public unary_call {
 public:
  void OnCancel() final;

 protected:
  using unary_call::unary_call;

  /// The run that the call waits for, to be started by the caller. Called at most once.
  /// @param receive  as of `awaited_run`
  /// @throws request_error `cancelled` if the client has hung up already
  [[nodiscard]] std::shared_ptr<awaited_run> await(std::function<void(run_result)> receive);

 private:
  std::mutex mutex_{};
  std::shared_ptr<awaited_run> run_{};  ///< guarded by mutex_
  bool is_cancelled_ = false;           ///< guarded by mutex_
};

}  // namespace sluice::service
