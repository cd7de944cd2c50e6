// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>

#include <chrono>
#include <map>
#include <mutex>

namespace sluice::service {

/// Cancels calls whose clients do not take what they are sent, so that they do not hold the memory
/// of replies. Thread-safe.
class send_deadlines {
 public:
  using clock = std::chrono::steady_clock;

  /// @param longest  how long a message may take
  explicit send_deadlines(std::chrono::milliseconds longest) noexcept : longest_(longest) {}

  /// A message is being sent from now on.
  void begin(grpc::CallbackServerContext& call) noexcept;
  /// It has been sent, or the call has ended. Not later than in `OnDone`.
  void end(grpc::CallbackServerContext& call) noexcept;
  void cancel_overdue(clock::time_point now);

 private:
  const std::chrono::milliseconds longest_;
  // gRPC calls no reactor within `TryCancel`, so that it may be called under the mutex.
  std::mutex mutex_{};
  std::map<grpc::CallbackServerContext*, clock::time_point> begins_{};  ///< guarded by mutex_
};

}  // namespace sluice::service
