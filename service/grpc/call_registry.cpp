// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/call_registry.hpp"

#include "service/grpc/streaming_call.hpp"

#include <utility>

namespace sluice::service {

void call_registry::add(const std::shared_ptr<streaming_call>& call) {
  {
    const std::scoped_lock lock(mutex_);
    // The vector forgets ended calls before it would grow.
    if (calls_.size() == calls_.capacity()) {
      std::erase_if(calls_, [](const auto& each) { return each.expired(); });
      calls_.reserve(2 * calls_.size() + 1);
    }
    calls_.push_back(call);
    if (!is_draining_) return;
  }
  call->drain();
}

void call_registry::drain() {
  {
    const std::scoped_lock lock(mutex_);
    is_draining_ = true;
  }
  for (const auto& call : open_calls()) call->drain();
}

void call_registry::note_health(bool is_ready) {
  for (const auto& call : open_calls()) call->note_health(is_ready);
}

std::vector<std::shared_ptr<streaming_call>> call_registry::open_calls() {
  std::vector<std::shared_ptr<streaming_call>> open;
  const std::scoped_lock lock(mutex_);
  open.reserve(calls_.size());
  for (const auto& each : calls_) {
    if (auto call = each.lock()) open.push_back(std::move(call));
  }
  return open;
}

}  // namespace sluice::service
