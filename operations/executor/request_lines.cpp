// SPDX-License-Identifier: Apache-2.0
#include "operations/executor/request_lines.hpp"

#include <utility>

namespace sluice::operations {
namespace {

/// Its place in `ready_requests::lines`.
std::size_t kind_of(const waiting_request& r) noexcept {
  return r->most_in_batch == 0 ? 0 : 1;
}
ready_requests& ready_like(const waiting_request& r) noexcept {
  return r.share->ready[priority_of(r)];
}

}  // namespace

waiting_request& request_line::first() const noexcept {
  if (late.empty()) return *in_order.first();
  auto& first_late = *late.begin()->second;
  return in_order.empty() || first_late->number < (*in_order.first())->number ? first_late
                                                                              : *in_order.first();
}

void request_line::add(waiting_request& r) noexcept {
  r.is_late = !in_order.empty() && r->number < (*in_order.last())->number;
  if (r.is_late) {
    late.insert(std::move(r.late_node));
  } else {
    in_order.push_back(r);
  }
}

void request_line::remove(waiting_request& r) noexcept {
  if (r.is_late) {
    late.erase(r->number);
  } else {
    in_order.erase(r);
  }
}

void request_lines::add(waiting_request& r) noexcept {
  auto& ready = ready_like(r);
  const auto priority = priority_of(r);
  if (r.standing == standing::unexamined) {
    if (ready.unexamined.requests.empty()) unexamined_[priority].push_back(ready.unexamined);
    ready.unexamined.requests.push_back(r);
  } else if (r.standing == standing::runnable) {
    const auto kind = kind_of(r);
    auto& line = ready.lines[kind];
    if (line.empty()) {
      lines_[priority][kind].push_back(line);
      line.turn = ++turns_;
    }
    line.add(r);
  }
}

void request_lines::remove(waiting_request& r) noexcept {
  const auto priority = priority_of(r);
  auto& ready = ready_like(r);
  if (r.standing == standing::unexamined) {
    ready.unexamined.requests.erase(r);
    if (ready.unexamined.requests.empty()) unexamined_[priority].erase(ready.unexamined);
    return;
  }
  ready.lines[kind_of(r)].remove(r);
  for (std::size_t kind = 0; kind < ready.lines.size(); ++kind) {
    auto& line = ready.lines[kind];
    if (line.turn != 0) end_turn(lines_[priority][kind], line);
  }
}

void request_lines::end_turn(chain<request_line>& lines, request_line& line) noexcept {
  lines.erase(line);
  line.turn = 0;
  if (line.empty()) return;
  lines.push_back(line);
  line.turn = ++turns_;
}

waiting_request* request_lines::next(std::size_t priority, bool batches) const noexcept {
  const auto& [alone, together] = lines_[priority];
  const auto* line = alone.first();
  if (const auto* other = together.first(); batches && other != nullptr) {
    if (line == nullptr || other->turn < line->turn) line = other;
  }
  if (line == nullptr) return nullptr;
  auto* request = &line->first();
  if (batches) {
    for (const auto& other : ready_like(*request).lines) {
      if (other.empty()) continue;
      auto& candidate = other.first();
      if (candidate->number < (*request)->number) request = &candidate;
    }
  }
  return request;
}

waiting_request* request_lines::next_unexamined(std::size_t priority) const noexcept {
  const auto* const sender = unexamined_[priority].first();
  return sender != nullptr ? sender->requests.first() : nullptr;
}

void request_lines::end_examination(const waiting_request& r) noexcept {
  auto& sender = ready_like(r).unexamined;
  if (sender.requests.empty()) return;
  auto& senders = unexamined_[priority_of(r)];
  senders.erase(sender);
  senders.push_back(sender);
}

}  // namespace sluice::operations
