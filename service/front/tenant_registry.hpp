// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/tenant_settings.hpp"
#include "service/front/tenant_usage.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace sluice::service {

/// The settings of tenants according to a file that can be read again. All functions are
/// thread-safe.
class tenant_registry {
 public:
  /// Without a file all tenants have the default settings.
  tenant_registry() = default;
  /// @throws std::runtime_error if the file cannot be read, is malformed, or others may write to it
  explicit tenant_registry(std::string file);

  /// Reads the file again, for requests from now on.
  /// @throws std::runtime_error as the constructor; the settings stay the same then
  void reload();

  /// The settings of a tenant as they are now. Empty: clients without a token.
  [[nodiscard]] std::shared_ptr<const tenant_settings> find(std::string_view tenant) const;
  /// Counts a request until the returned object is destroyed. Null if the tenant has no limits.
  /// @throws request_error as `tenant_usage::charge`
  [[nodiscard]] std::shared_ptr<const void> charge(std::string_view tenant,
                                                   std::uint64_t bytes) const;
  /// How many requests `charge` has refused.
  [[nodiscard]] std::uint64_t refusals() const noexcept { return usage_->refusals(); }
  /// Whether some tenant may use shared memory now.
  [[nodiscard]] bool permits_shared_memory() const { return table()->permits_shared_memory(); }

 private:
  [[nodiscard]] std::shared_ptr<const tenant_table> table() const;

  const std::string file_{};
  const std::shared_ptr<tenant_usage> usage_ = std::make_shared<tenant_usage>();
  mutable std::mutex mutex_{};
  /// Guarded by mutex_.
  std::shared_ptr<const tenant_table> table_ = std::make_shared<const tenant_table>();
};

}  // namespace sluice::service
