// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/client_region.hpp"
#include "service/front/tenant_registry.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::service {

/// The regions of system shared memory that tenants have registered. A tenant sees its own alone.
/// All functions are thread-safe. If no tenant may use shared memory, `add`, `list` and `find`
/// throw request_error `unimplemented`.
class region_registry {
 public:
  /// Permits what the settings of tenants permit when a function is called.
  explicit region_registry(std::shared_ptr<const tenant_registry> tenants);

  /// Whether some tenant may use shared memory now.
  [[nodiscard]] bool is_enabled() const { return tenants_->permits_shared_memory(); }

  /// Registers a region.
  /// @throws request_error `permission_denied` if the tenant may not use shared memory or this key;
  /// `invalid_argument` if the name is empty, has more than 256 bytes or is registered;
  /// `too_large` if it has more bytes than the tenant may have, `resource_exhausted` if the tenant
  /// has too many regions or bytes with it, or all tenants have as many regions as a quarter of the
  /// descriptors that the process may have; what `client_region` throws
  void add(std::string_view tenant, region_description description);
  /// Unregisters a region, or nothing if the tenant has none with this name; all its regions if the
  /// name is empty. Requests in flight keep them open.
  void remove(std::string_view tenant, std::string_view name);

  /// Unregisters what the settings of the tenants do not permit any more.
  void remove_forbidden();

  /// The region of the tenant with this name; all its regions, by their names, if it is empty.
  /// @throws request_error `not_found` if there is none with this name
  [[nodiscard]] std::vector<region_description> list(std::string_view tenant,
                                                     std::string_view name) const;
  /// A region of the tenant, for its use.
  /// @throws request_error `not_found` if there is none with this name, `permission_denied` if the
  /// settings of the tenant do not permit it any more
  [[nodiscard]] std::shared_ptr<const client_region> find(std::string_view tenant,
                                                          std::string_view name) const;

 private:
  void require_enabled() const;

  struct tenant_regions {
    std::map<std::string, std::shared_ptr<const client_region>, std::less<>> by_name{};
    std::uint64_t bytes = 0;
  };

  const std::shared_ptr<const tenant_registry> tenants_;
  const std::size_t most_regions_;
  mutable std::mutex mutex_{};
  std::size_t count_ = 0;  ///< of all regions; guarded by mutex_
  std::map<std::string, tenant_regions, std::less<>> regions_{};  ///< guarded by mutex_
};

}  // namespace sluice::service
