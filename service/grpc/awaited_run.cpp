// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/awaited_run.hpp"

#include <utility>

namespace sluice::service {

void awaited_run::submit(run_request request, std::unique_ptr<input_memory> inputs) {
  {
    const std::scoped_lock lock(mutex_);
    if (is_cancelled_) return;
  }
  model_backend::number number = 0;
  try {
    number = backend_.submit(
        std::move(request), std::move(inputs),
        [run = shared_from_this()](run_result result) { run->deliver(std::move(result)); });
  } catch (...) {
    if (take_receiver()) throw;
    return;
  }
  {
    const std::scoped_lock lock(mutex_);
    number_ = number;
    if (!is_cancelled_) return;
  }
  backend_.cancel(number);
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
