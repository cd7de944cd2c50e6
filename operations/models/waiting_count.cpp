// SPDX-License-Identifier: Apache-2.0
#include "operations/models/waiting_count.hpp"

#include <sluice/operations/bounded_inbox.hpp>

namespace sluice::detail {
namespace {

constexpr std::size_t most_requests = 1024;
constexpr std::size_t most_requests_of_sender = most_requests / 2;
constexpr std::size_t most_bytes = std::size_t{128} << 20U;

}  // namespace

void waiting_count::add(request_sender sender, std::size_t bytes) {
  constexpr const char* of_all = "requests for programs of the model";
  constexpr const char* of_sender = "requests of this sender for programs of the model";
  if (requests_ >= most_requests) refuse_messages(of_all, requests_, most_requests);
  if (requests_ != 0 && bytes_ + bytes > most_bytes) {
    refuse_bytes(of_all, bytes_, bytes, most_bytes);
  }
  const auto own = requests_of_sender_.find(sender);
  if (own != requests_of_sender_.end() && own->second >= most_requests_of_sender) {
    refuse_messages(of_sender, own->second, most_requests_of_sender);
  }
  ++requests_of_sender_[sender];
  ++requests_;
  bytes_ += bytes;
}

void waiting_count::remove(request_sender sender, std::size_t bytes) noexcept {
  const auto own = requests_of_sender_.find(sender);
  if (--own->second == 0) requests_of_sender_.erase(own);
  --requests_;
  bytes_ -= bytes;
}

}  // namespace sluice::detail
