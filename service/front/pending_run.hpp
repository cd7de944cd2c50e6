// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/model_backend.hpp"

#include <functional>
#include <mutex>
#include <utility>

namespace sluice::service {

/// The place where the result of a run arrives, from any thread and perhaps never. It outlives the
/// connection that waits for it.
class pending_run {
 public:
  /// `receive` must not call back into this.
  explicit pending_run(std::function<void(run_result)> receive) : receive_(std::move(receive)) {}

  /// Passes the result on, unless one was delivered before or `forget` was called.
  void deliver(run_result result) {
    const std::scoped_lock lock(mutex_);
    if (!receive_) return;
    receive_(std::move(result));
    receive_ = nullptr;
  }
  /// After this no result is passed on.
  void forget() {
    const std::scoped_lock lock(mutex_);
    receive_ = nullptr;
  }

 private:
  std::mutex mutex_{};
  std::function<void(run_result)> receive_;
};

}  // namespace sluice::service
