// SPDX-License-Identifier: Apache-2.0
#include "service/worker/model_loader.hpp"

#include <sluice/models/model.hpp>

#include <exception>
#include <utility>

namespace sluice::service {
namespace {

[[nodiscard]] loaded_model load(load_order&& order) noexcept {
  loaded_model loaded{.order = std::move(order)};
  try {
    auto source = open_source(loaded.order.source, loaded.order.name);
    loaded.warm_ups = make_warm_ups(loaded.order.warm_ups);
    loaded.source = std::make_shared<model>(std::move(source));
  } catch (const std::exception& e) {
    loaded.problem = e.what();
  }
  return loaded;
}

}  // namespace

model_loader::model_loader(std::shared_ptr<wake_event> wake)
    : wake_(std::move(wake)), thread_([this] { run(); }) {}

model_loader::~model_loader() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  added_.notify_one();
  thread_.join();
}

void model_loader::add(load_order order) {
  {
    const std::lock_guard lock(mutex_);
    orders_.push_back(std::move(order));
  }
  added_.notify_one();
}

std::vector<loaded_model> model_loader::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(loaded_, {});
}

void model_loader::run() noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    added_.wait(lock, [this] { return is_closed_ || !orders_.empty(); });
    if (is_closed_) return;
    auto order = std::move(orders_.front());
    orders_.pop_front();
    lock.unlock();
    auto loaded = load(std::move(order));
    lock.lock();
    loaded_.push_back(std::move(loaded));
    wake_->signal();
  }
}

}  // namespace sluice::service
