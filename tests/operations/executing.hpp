// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/manual_timer.hpp"
#include "tests/support/devices.hpp"

#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/lane.hpp>
#include <sluice/operations/executor.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/runtime/host_device.hpp>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace sluice::test {

/// Wakes the owner of an executor that waits in a test.
class alarm {
 public:
  void ring() noexcept {
    const std::lock_guard lock(mutex_);
    rung_ = true;
    changed_.notify_all();
  }
  /// Waits until it has rung since the last call.
  void await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return std::exchange(rung_, false); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;
};

/// The answer to a request, which another thread may give.
template <class Result>
class pending {
 public:
  explicit pending(std::shared_ptr<alarm> rung) : state_(std::make_shared<state>()) {
    state_->rung = std::move(rung);
  }

  [[nodiscard]] reply_token<Result> token() const {
    return reply_token<Result>::from(
        [state = state_](Result value) {
          state->result = std::move(value);
          state->answer();
        },
        [state = state_](const error& why) {
          state->failure = why;
          state->answer();
        });
  }
  [[nodiscard]] bool answered() const noexcept { return state_->answered.load(); }
  /// The answer, once it is there. The result is moved out.
  /// @throws error the answer, if it is an error
  [[nodiscard]] Result get() {
    if (state_->failure) throw *state_->failure;
    return std::move(*state_->result);
  }

 private:
  struct state {
    void answer() noexcept {
      answered = true;
      rung->ring();
    }
    std::shared_ptr<alarm> rung;
    std::optional<Result> result;
    std::optional<error> failure;
    std::atomic<bool> answered{false};
  };
  std::shared_ptr<state> state_;
};

using pending_answer = pending<tensor>;

/// What a request is answered with.
template <class Operation>
struct answer_to {
  using type = operation_result<Operation>;
};
template <>
struct answer_to<sluice::run> {
  using type = tensors;
};
template <>
struct answer_to<sluice::run_to_host> {
  using type = host_tensors;
};
template <>
struct answer_to<sluice::prepare> {
  using type = prepared;
};

/// A test with an executor on the device that its parameter names.
class executor_test : public named_device_test {
 protected:
  void SetUp() override {
    named_device_test::SetUp();
    if (IsSkipped()) return;
    auto options = options_of_service();
    options.timer = timer_;
    options.runtime = options_of_runtime();
    service_ = std::make_shared<device_service>(opened_device(), std::move(options));
    executor_ = make_executor();
    stream_ = runtime().create_stream();
  }
  void TearDown() override {
    executor_.reset();
    stream_ = sluice::stream();
    service_.reset();
  }

  /// The device of the test.
  [[nodiscard]] virtual std::shared_ptr<device> opened_device() { return open_device(GetParam()); }
  /// The options of the test's service, without its timer and its runtime.
  [[nodiscard]] virtual device_service_options options_of_service() { return {}; }
  /// The options of the test's runtime.
  [[nodiscard]] virtual runtime_options options_of_runtime() { return {}; }
  [[nodiscard]] std::unique_ptr<executor> make_executor(executor_options options = {}) {
    auto result = std::make_unique<executor>(service_, nullptr, options);
    result->on_wake(waking());
    return result;
  }
  [[nodiscard]] const std::shared_ptr<alarm>& waking_alarm() const { return alarm_; }
  /// Wakes this thread in `wait`.
  [[nodiscard]] std::function<void()> waking() const {
    return [alarm = alarm_] {
      alarm->ring();
    };
  }
  /// Submits `operation` to an executor of this thread.
  template <class Operation>
  auto submit(executor& executor, Operation operation, const request_options& options = {},
              request_sender sender = {}) {
    pending<typename answer_to<Operation>::type> answer(alarm_);
    executor.submit(std::move(operation), options, answer.token(), sender);
    return answer;
  }
  /// Serves an executor of this thread until it has answered.
  /// @throws error the answer, if it is an error
  template <class Result>
  Result wait(executor& executor, pending<Result>& answer) {
    // Another executor may have rung, so this one works before it waits.
    for (executor.work(); !answer.answered(); executor.work()) alarm_->await();
    return answer.get();
  }
  template <class Result>
  Result wait(pending<Result>& answer) {
    return wait(test_executor(), answer);
  }
  /// Submits `operation` and waits for the answer.
  /// @throws error the answer, if it is an error
  template <class Operation>
  auto run(executor& executor, Operation operation, const request_options& options = {}) {
    auto answer = submit(executor, std::move(operation), options);
    return wait(executor, answer);
  }

  [[nodiscard]] const std::shared_ptr<device_service>& service() const { return service_; }
  [[nodiscard]] manual_timer& timer() { return *timer_; }
  [[nodiscard]] executor& test_executor() { return *executor_; }
  [[nodiscard]] device_runtime& runtime() { return service_->runtime(); }
  [[nodiscard]] stream_ref stream() const { return stream_.ref(); }

 private:
  std::shared_ptr<alarm> alarm_ = std::make_shared<alarm>();
  std::shared_ptr<manual_timer> timer_ = std::make_shared<manual_timer>();
  std::shared_ptr<device_service> service_;
  std::unique_ptr<executor> executor_;
  sluice::stream stream_;
};

}  // namespace sluice::test
