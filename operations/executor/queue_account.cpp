// SPDX-License-Identifier: Apache-2.0
#include "operations/executor/queue_account.hpp"

#include <sluice/operations/bounded_inbox.hpp>
#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace sluice::operations {

using detail::operation_request;

namespace {

/// The senders of whom nothing waits and who are remembered, so that their next request finds its
/// entry.
constexpr std::size_t max_idle_senders = 64;

}  // namespace

void queue_account::require_room(const operation_request& request, std::size_t bytes) const {
  const auto requests = lane_ != nullptr ? lane_->requests_of_all() : requests_;
  if (requests >= limits_.requests) {
    detail::refuse_messages("requests", requests, limits_.requests);
  }
  auto charge = charge_of(request, bytes);
  for (const auto& [identity, shared_bytes] : request.shared()) {
    if (identity == nullptr) break;
    const auto shared_charge = charge_of_shared(shared_bytes);
    if (!shared_of_sender_.contains(std::pair(request.sender.id, identity))) bytes += shared_charge;
    if (!shared_.contains(identity)) charge += shared_charge;
  }
  const auto sender = request.sender.id == 0 ? senders_.end() : senders_.find(request.sender.id);
  if (sender != senders_.end() && sender->second.requests != 0) {
    const auto& share = sender->second;
    if (share.requests >= limits_.requests_of_sender) {
      detail::refuse_messages("requests of this sender", share.requests,
                              limits_.requests_of_sender);
    }
    if (bytes > limits_.bytes_of_sender - std::min(share.bytes, limits_.bytes_of_sender)) {
      detail::refuse_bytes("requests of this sender", share.bytes, bytes, limits_.bytes_of_sender);
    }
  }
  const auto total = lane_ != nullptr ? lane_->bytes_of_all() : charge_;
  if (requests != 0 && charge > limits_.bytes - std::min(total, limits_.bytes)) {
    detail::refuse_bytes("requests", total, charge, limits_.bytes);
  }
}

std::size_t queue_account::charge_of(const operation_request& request,
                                     std::size_t bytes) const noexcept {
  return request.sender.id == 0 ? bytes : std::min(bytes, limits_.bytes_of_sender);
}

std::size_t queue_account::charge_of_shared(std::size_t bytes) const noexcept {
  return std::min(bytes, limits_.bytes_of_sender / 4);
}

void queue_account::add(waiting_request& r, const operation_request& request) {
  auto& share = add_to_sender(request);
  r.share = &share;
  if (request.shared()[0].identity != nullptr) {
    try {
      add_shared(r, request);
    } catch (...) {
      remove_shared(r, request);
      remove_from_sender(request, share);
      throw;
    }
  }
  ++requests_;
  bytes_ += request.counted_bytes;
  charge_ += charge_of(request, request.counted_bytes);
  if (lane_ != nullptr) {
    lane_->note_added(request.sender);
    publish();
  }
}

void queue_account::remove(waiting_request& r) noexcept {
  --requests_;
  bytes_ -= r->counted_bytes;
  charge_ -= charge_of(*r, r->counted_bytes);
  remove_shared(r, *r);
  remove_from_sender(*r, *r.share);
  if (lane_ != nullptr) {
    lane_->note_left(r->sender);
    publish();
  }
}

void queue_account::charge(waiting_request& r, std::size_t bytes) noexcept {
  charge_ -= charge_of(*r, r->counted_bytes);
  r->counted_bytes += bytes;
  r.share->bytes += bytes;
  bytes_ += bytes;
  charge_ += charge_of(*r, r->counted_bytes);
}

void queue_account::publish() noexcept {
  if (lane_ == nullptr) return;
  lane_->note_bytes(published_charge_, charge_);
  published_charge_ = charge_;
}

sender_share& queue_account::add_to_sender(const operation_request& request) {
  if (last_share_ == nullptr || last_sender_ != request.sender.id) {
    const auto [entry, is_new] = senders_.try_emplace(request.sender.id, memory_);
    if (is_new) ++idle_senders_;
    last_share_ = &entry->second;
    last_sender_ = request.sender.id;
  }
  auto& share = *last_share_;
  if (share.requests == 0) --idle_senders_;
  ++share.requests;
  share.bytes += request.counted_bytes;
  return share;
}

void queue_account::remove_from_sender(const operation_request& request,
                                       sender_share& share) noexcept {
  share.bytes -= request.counted_bytes;
  if (--share.requests == 0 && ++idle_senders_ > max_idle_senders) forget_senders();
}

void queue_account::add_shared(waiting_request& r, const operation_request& request) {
  for (const auto& part : request.shared()) {
    if (part.identity == nullptr) break;
    const auto of_sender = shared_of_sender_.try_emplace({request.sender.id, part.identity}).first;
    try {
      (void)shared_.try_emplace(part.identity);
    } catch (...) {
      if (of_sender->second.requests == 0) shared_of_sender_.erase(of_sender);
      throw;
    }
    auto& total = shared_.find(part.identity)->second;
    const auto charge = charge_of_shared(part.bytes);
    if (of_sender->second.requests++ == 0) {
      of_sender->second.charge = charge;
      r.share->bytes += charge;
    }
    if (total.requests++ == 0) {
      total.bytes = part.bytes;
      total.charge = charge;
      bytes_ += total.bytes;
      charge_ += total.charge;
    }
    (r.shared[0].identity == nullptr ? r.shared[0] : r.shared[1]) = part;
  }
}

void queue_account::remove_shared(waiting_request& r, const operation_request& request) noexcept {
  if (r.shared[0].identity == nullptr) return;
  for (auto& part : r.shared) {
    if (part.identity == nullptr) continue;
    const auto of_sender = shared_of_sender_.find(std::pair(request.sender.id, part.identity));
    const auto total = shared_.find(part.identity);
    if (--of_sender->second.requests == 0) {
      r.share->bytes -= of_sender->second.charge;
      shared_of_sender_.erase(of_sender);
    }
    if (--total->second.requests == 0) {
      bytes_ -= total->second.bytes;
      charge_ -= total->second.charge;
      shared_.erase(total);
    }
    part = {};
  }
}

void queue_account::forget_senders() noexcept {
  std::erase_if(senders_, [](const auto& entry) { return entry.second.requests == 0; });
  idle_senders_ = 0;
  last_share_ = nullptr;
}

}  // namespace sluice::operations
