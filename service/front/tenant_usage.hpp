// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/tenant_settings.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace sluice::service {

/// The requests of tenants that are in flight. Thread-safe. Owned by a `std::shared_ptr`.
class tenant_usage : public std::enable_shared_from_this<tenant_usage> {
 public:
  /// Counts a request with so many bytes of inputs until the returned object is destroyed.
  /// @throws request_error `too_large` if the bytes alone are above the limit, `resource_exhausted`
  /// if they are with the other requests of the tenant
  [[nodiscard]] std::shared_ptr<const void> charge(std::string_view tenant,
                                                   const tenant_limits& limits,
                                                   std::uint64_t bytes);
  /// How many requests were refused.
  [[nodiscard]] std::uint64_t refusals() const noexcept { return refusals_; }

 private:
  struct amounts {
    std::uint64_t requests = 0;
    std::uint64_t bytes = 0;
  };
  class charged_request;

  void release(const std::string& tenant, std::uint64_t bytes) noexcept;

  std::atomic<std::uint64_t> refusals_{0};
  std::mutex mutex_{};
  std::map<std::string, amounts, std::less<>> tenants_{};  ///< guarded by mutex_
};

}  // namespace sluice::service
