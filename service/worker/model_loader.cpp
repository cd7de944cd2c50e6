// SPDX-License-Identifier: Apache-2.0
#include "service/worker/model_loader.hpp"

#include <sluice/models/model.hpp>

#include <exception>
#include <map>
#include <string>
#include <utility>

namespace sluice::service {
namespace {

/// Refuses a model with a node that sluice cannot compute for any inputs. What else it cannot
/// compute depends on the shapes of a request.
/// @throws error with the node
void check_nodes(const model& source) {
  std::map<std::string, tensor_spec> specs;
  for (const auto& input : source.inputs()) {
    if (!input.type || !input.shape) return;
    extents shape;
    for (const auto& dimension : *input.shape) shape.push_back(dimension.extent.value_or(1));
    specs.emplace(input.name, tensor_spec::row_major(*input.type, shape));
  }
  for (const auto& refusal : source.refusals(specs)) {
    if (!refusal.is_inherent) continue;
    throw error(refusal.code,
                "node '" + refusal.node + "' (" + refusal.operator_name + "): " + refusal.reason);
  }
}

[[nodiscard]] loaded_model load(load_order&& order) noexcept {
  loaded_model loaded{.order = std::move(order)};
  try {
    auto source = model::open(loaded.order.path);
    check_nodes(source);
    loaded.warm_ups = make_warm_ups(loaded.order.warm_ups);
    loaded.source = std::make_shared<model>(std::move(source));
  } catch (const std::exception& e) {
    loaded.problem = e.what();
    // The path is no concern of clients.
    const auto& path = loaded.order.path;
    if (const auto start = loaded.problem.find(path); start != std::string::npos) {
      loaded.problem.replace(start, path.size(), "model.onnx");
    }
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
