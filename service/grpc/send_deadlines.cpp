// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/send_deadlines.hpp"

#include <new>

namespace sluice::service {

void send_deadlines::begin(grpc::CallbackServerContext& call) noexcept {
  try {
    const std::scoped_lock lock(mutex_);
    begins_.insert_or_assign(&call, clock::now());
  } catch (const std::bad_alloc&) {
    // The message has no deadline.
  }
}

void send_deadlines::end(grpc::CallbackServerContext& call) noexcept {
  const std::scoped_lock lock(mutex_);
  begins_.erase(&call);
}

void send_deadlines::cancel_overdue(clock::time_point now) {
  const std::scoped_lock lock(mutex_);
  for (auto next = begins_.begin(); next != begins_.end();) {
    const auto each = next++;
    if (now - each->second <= longest_) continue;
    each->first->TryCancel();
    begins_.erase(each);
  }
}

}  // namespace sluice::service
