// SPDX-License-Identifier: Apache-2.0
#include "service/front/request_quarantine.hpp"

#include <algorithm>

namespace sluice::service {

request_quarantine::kind request_quarantine::kind_of(const run_message& request) {
  kind kind{.model = request.model, .tenant = request.tenant};
  for (const auto& input : request.inputs) {
    kind.inputs.insert(kind.inputs.end(), {input.number, static_cast<std::int64_t>(input.type),
                                           static_cast<std::int64_t>(input.shape.size())});
    kind.inputs.insert(kind.inputs.end(), input.shape.begin(), input.shape.end());
  }
  return kind;
}

void request_quarantine::add(const run_message& request, clock::time_point now) {
  std::erase_if(ends_, [now](const auto& each) { return each.second <= now; });
  if (ends_.size() >= most_kinds) {
    ends_.erase(std::min_element(
        ends_.begin(), ends_.end(),
        [](const auto& left, const auto& right) { return left.second < right.second; }));
  }
  ends_.insert_or_assign(kind_of(request), now + duration);
}

bool request_quarantine::holds(const run_message& request, clock::time_point now) const {
  if (ends_.empty()) return false;
  const auto found = ends_.find(kind_of(request));
  return found != ends_.end() && now < found->second;
}

void request_quarantine::release(std::uint32_t model) {
  std::erase_if(ends_, [model](const auto& each) { return each.first.model == model; });
}

}  // namespace sluice::service
