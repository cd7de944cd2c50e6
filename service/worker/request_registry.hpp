// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/request_options.hpp>

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace sluice::service {

/// The senders of the requests that have no answer, by number: a cancellation names the request
/// alone. Thread-safe.
class request_registry {
 public:
  void add(std::uint64_t request, request_sender sender) {
    const std::lock_guard lock(mutex_);
    senders_.emplace(request, sender);
  }
  void remove(std::uint64_t request) noexcept {
    const std::lock_guard lock(mutex_);
    senders_.erase(request);
  }
  [[nodiscard]] std::optional<request_sender> find(std::uint64_t request) const noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = senders_.find(request);
    return found == senders_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, request_sender> senders_;
};

}  // namespace sluice::service
