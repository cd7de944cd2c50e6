// SPDX-License-Identifier: Apache-2.0
#include "service/front/tenant_usage.hpp"

#include "service/protocol/request_error.hpp"

#include <utility>

namespace sluice::service {
namespace {

[[noreturn]] void refuse(request_status status, std::string_view tenant, const std::string& what) {
  const auto name = tenant.empty() ? std::string("clients without a token") : std::string(tenant);
  throw request_error(status, "the limit of " + name + ": " + what);
}

}  // namespace

/// A request that counts.
class tenant_usage::charged_request {
 public:
  charged_request(std::shared_ptr<tenant_usage> usage, std::string tenant, std::uint64_t bytes)
      : usage_(std::move(usage)), tenant_(std::move(tenant)), bytes_(bytes) {}
  charged_request(const charged_request&) = delete;
  charged_request& operator=(const charged_request&) = delete;
  ~charged_request() {
    if (counts_) usage_->release(tenant_, bytes_);
  }

  /// Needs the mutex.
  void count(const tenant_limits& limits) {
    auto& amounts = usage_->tenants_[tenant_];
    const bool has_many = amounts.requests >= limits.requests;
    if (has_many || amounts.bytes > limits.request_bytes - bytes_) ++usage_->refusals_;
    if (has_many) {
      refuse(request_status::resource_exhausted, tenant_,
             std::to_string(limits.requests) + " requests in flight");
    }
    if (amounts.bytes > limits.request_bytes - bytes_) {
      refuse(request_status::resource_exhausted, tenant_,
             std::to_string(limits.request_bytes) + " bytes of inputs in flight");
    }
    ++amounts.requests;
    amounts.bytes += bytes_;
    counts_ = true;
  }

 private:
  const std::shared_ptr<tenant_usage> usage_;
  const std::string tenant_;
  const std::uint64_t bytes_;
  bool counts_ = false;
};

std::shared_ptr<const void> tenant_usage::charge(std::string_view tenant,
                                                 const tenant_limits& limits, std::uint64_t bytes) {
  if (bytes > limits.request_bytes) {
    ++refusals_;
    refuse(request_status::too_large, tenant,
           std::to_string(limits.request_bytes) + " bytes of inputs");
  }
  auto request = std::make_shared<charged_request>(shared_from_this(), std::string(tenant), bytes);
  const std::lock_guard lock(mutex_);
  request->count(limits);
  return request;
}

void tenant_usage::release(const std::string& tenant, std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = tenants_.find(tenant);
  --found->second.requests;
  found->second.bytes -= bytes;
  if (found->second.requests == 0) tenants_.erase(found);
}

}  // namespace sluice::service
