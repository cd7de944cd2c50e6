// SPDX-License-Identifier: Apache-2.0
#include "service/worker/worker_lanes.hpp"

#include "service/worker/completion_trace.hpp"

#include <algorithm>

namespace sluice::service {

worker_lanes::lane::lane(const std::shared_ptr<device_service>& service,
                         const std::shared_ptr<wake_event>& wake,
                         const std::function<bool()>& has_more)
    : executor_(service, std::make_shared<completion_trace>()) {
  executor_.on_wake([wake] { wake->signal(); });
  executor_.on_more(has_more);
}

worker_lanes::lane& worker_lanes::choose(std::size_t count) {
  while (lanes_.size() < count) {
    if (std::any_of(lanes_.begin(), lanes_.end(), [](const auto& l) { return l->runs() == 0; })) {
      break;
    }
    lanes_.push_back(std::make_unique<lane>(service_, wake_, has_more_));
  }
  const auto end = lanes_.begin() + static_cast<std::ptrdiff_t>(std::min(count, lanes_.size()));
  return **std::min_element(lanes_.begin(), end,
                            [](const auto& a, const auto& b) { return a->runs() < b->runs(); });
}

void worker_lanes::work() noexcept {
  for (const auto& each : lanes_) each->executor().work();
}

void worker_lanes::cancel(request_sender sender, std::uint64_t id) noexcept {
  for (const auto& each : lanes_) each->executor().cancel(sender, id);
}

}  // namespace sluice::service
