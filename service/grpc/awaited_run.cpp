// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/awaited_run.hpp"

#include <utility>

namespace sluice::service {

/// Calls `begin` unless the run is cancelled.
template <class Begin>
void awaited_run::begin(Begin begin) {
  {
    const std::scoped_lock lock(mutex_);
    if (is_cancelled_) return;
  }
  try {
    begin();
  } catch (...) {
    if (take_receiver()) throw;
  }
}

void awaited_run::submit(run_request request, std::unique_ptr<input_memory> inputs) {
  std::optional<model_backend::number> number;
  begin([&] {
    number = backend_.submit(
        std::move(request), std::move(inputs),
        [run = shared_from_this()](run_result result) { run->deliver(std::move(result)); });
  });
  if (!number) return;
  {
    const std::scoped_lock lock(mutex_);
    number_ = number;
    if (!is_cancelled_) return;
  }
  backend_.cancel(*number);
}

void awaited_run::load(std::string model) {
  begin([&] {
    backend_.load(std::move(model),
                  [run = shared_from_this()](std::optional<request_error> failure) {
                    run->deliver({.error = std::move(failure)});
                  });
  });
}

void awaited_run::unload(std::string model) {
  begin([&] {
    backend_.unload(std::move(model),
                    [run = shared_from_this()](std::optional<request_error> failure) {
                      run->deliver({.error = std::move(failure)});
                    });
  });
}

bool awaited_run::cancel() noexcept {
  std::optional<model_backend::number> number;
  std::function<void(run_result)> receive;
  {
    const std::scoped_lock lock(mutex_);
    if (!receive_) return false;
    receive.swap(receive_);
    is_cancelled_ = true;
    number = number_;
  }
  if (number) backend_.cancel(*number);
  return true;
}

void awaited_run::deliver(run_result result) {
  deliveries_->begin();
  {
    const auto receive = take_receiver();
    if (receive) receive(std::move(result));
  }
  deliveries_->end();
}

std::function<void(run_result)> awaited_run::take_receiver() noexcept {
  const std::scoped_lock lock(mutex_);
  std::function<void(run_result)> receive;
  receive.swap(receive_);
  return receive;
}

}  // namespace sluice::service
