// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace sluice::service {

/// Numbers for the connections of clients, which gRPC knows by the address of the client only. The
/// calls of a client at the same time have the same number. Thread-safe.
class connection_numbers {
 private:
  // The connections of HTTP are counted from 1.
  static constexpr std::uint64_t first_number = std::uint64_t{1} << 63U;

  struct connection {
    std::uint64_t number = 0;
    std::size_t calls = 0;
  };

  std::mutex mutex_{};
  std::map<std::string, connection> connections_{};
  std::uint64_t count_ = 0;

 public:
  /// The number of the connection of one call.
  class holder {
   public:
    holder(connection_numbers& numbers, const std::string& peer) : numbers_(numbers) {
      const std::scoped_lock lock(numbers_.mutex_);
      entry_ = numbers_.connections_.try_emplace(peer).first;
      if (entry_->second.calls++ == 0) entry_->second.number = first_number | ++numbers_.count_;
    }
    holder(const holder&) = delete;
    holder& operator=(const holder&) = delete;
    ~holder() {
      const std::scoped_lock lock(numbers_.mutex_);
      if (--entry_->second.calls == 0) numbers_.connections_.erase(entry_);
    }
    [[nodiscard]] std::uint64_t number() const noexcept { return entry_->second.number; }

   private:
    connection_numbers& numbers_;
    std::map<std::string, connection>::iterator entry_{};
  };
};

}  // namespace sluice::service
