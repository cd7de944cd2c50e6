// SPDX-License-Identifier: Apache-2.0
#include "service/worker/device_check.hpp"

#include <sluice/envelope/reply_token.hpp>
#include <sluice/operations/transfer.hpp>

#include <utility>

namespace sluice::service {

class device_check::receiver final : public reply_token<tensor>::receiver {
 public:
  receiver(std::uint64_t number, std::shared_ptr<std::atomic<std::uint64_t>> answered,
           std::shared_ptr<wake_event> wake) noexcept
      : number_(number), answered_(std::move(answered)), wake_(std::move(wake)) {}

  void succeed(tensor) noexcept override { answer(); }
  void fail(const error& failure) noexcept override {
    if (failure.code() != errc::device_lost) answer();
  }

 private:
  void answer() noexcept {
    answered_->store(number_, std::memory_order_release);
    wake_->signal();
  }

  const std::uint64_t number_;
  const std::shared_ptr<std::atomic<std::uint64_t>> answered_;
  const std::shared_ptr<wake_event> wake_;
};

void device_check::start(std::uint64_t number) {
  if (!executor_) {
    executor_ = std::make_unique<executor>(service_);
    executor_->on_wake([wake = wake_] { wake->signal(); });
  }
  executor_->submit(fill{.value = 1, .shape = extents{1}}, {},
                    reply_token<tensor>::make<receiver>(number, answered_, wake_));
}

void device_check::work() noexcept {
  if (executor_) executor_->work();
}

std::optional<std::uint64_t> device_check::take() noexcept {
  const auto answered = answered_->load(std::memory_order_acquire);
  if (std::exchange(taken_, answered) == answered) return std::nullopt;
  return answered;
}

}  // namespace sluice::service
