// SPDX-License-Identifier: Apache-2.0
#include "models/host_evaluation.hpp"

#include <sluice/envelope/device_service.hpp>
#include <sluice/operations/executor.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/runtime/error.hpp>

#include <condition_variable>
#include <optional>
#include <utility>

namespace sluice::models {

/// An executor on the host, and the thread that waits for its answers.
class host_evaluation::running {
 public:
  running() : executor_(std::make_shared<device_service>("host")) {
    executor_.on_wake([waiting = waiting_] { waiting->wake(); });
  }

  [[nodiscard]] host_tensors run(const program& what) {
    const auto answer = std::make_shared<answer_state>();
    executor_.submit(run_to_host{.what = what}, {},
                     reply_token<host_tensors>::from(
                         [answer, waiting = waiting_](host_tensors values) {
                           waiting->wake([&] { answer->values = std::move(values); });
                         },
                         [answer, waiting = waiting_](const error& failure) {
                           waiting->wake([&] { answer->failure = failure; });
                         }));
    for (;;) {
      executor_.work();
      std::unique_lock lock(waiting_->mutex);
      waiting_->changed.wait(lock, [&] { return std::exchange(waiting_->woken, false); });
      if (answer->failure) throw error(*answer->failure);
      if (answer->values) return std::move(*answer->values);
    }
  }

 private:
  struct answer_state {
    std::optional<host_tensors> values;
    std::optional<error> failure;
  };
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

host_evaluation::host_evaluation() = default;
host_evaluation::~host_evaluation() = default;

host_tensors host_evaluation::run(const program& what) {
  const std::lock_guard lock(mutex_);
  if (!running_) running_ = std::make_unique<running>();
  return running_->run(what);
}

}  // namespace sluice::models
