// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/reply_token.hpp>
#include <sluice/operations/executor.hpp>
#include <sluice/runtime/error.hpp>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace sluice::models {

/// An executor whose owner waits for each answer. One thread uses it at a time.
class blocking_executor {
 public:
  explicit blocking_executor(std::shared_ptr<device_service> service)
      : executor_(std::move(service)) {
    executor_.on_wake([waiting = waiting_] { waiting->wake(); });
  }

  /// Runs an operation and returns its answer, a `Reply`.
  /// @throws error the answer, if it is an error
  template <class Reply, class Operation>
  [[nodiscard]] Reply run(Operation operation) {
    struct answer_state {
      std::optional<Reply> value;
      std::optional<error> failure;
    };
    const auto answer = std::make_shared<answer_state>();
    executor_.submit(std::move(operation), {},
                     reply_token<Reply>::from(
                         [answer, waiting = waiting_](Reply value) {
                           waiting->wake([&] { answer->value = std::move(value); });
                         },
                         [answer, waiting = waiting_](const error& failure) {
                           waiting->wake([&] { answer->failure = failure; });
                         }));
    for (;;) {
      executor_.work();
      std::unique_lock lock(waiting_->mutex);
      waiting_->changed.wait(lock, [&] { return std::exchange(waiting_->woken, false); });
      if (answer->failure) throw error(*answer->failure);
      if (answer->value) return std::move(*answer->value);
    }
  }

 private:
  struct wake_state {
    template <class Change>
    void wake(const Change& change) {
      const std::lock_guard lock(mutex);
      change();
      woken = true;
      changed.notify_all();
    }
    void wake() {
      wake([] {});
    }
    std::mutex mutex;
    std::condition_variable changed;
    bool woken = false;
  };

  std::shared_ptr<wake_state> waiting_ = std::make_shared<wake_state>();
  executor executor_;
};

}  // namespace sluice::models
