// SPDX-License-Identifier: Apache-2.0
#include "service/front/region_registry.hpp"

#include "service/protocol/quoted_name.hpp"
#include "service/protocol/request_error.hpp"

#include <sys/resource.h>

#include <optional>
#include <utility>

namespace sluice::service {
namespace {

constexpr std::size_t most_name_bytes = 256;

[[noreturn]] void refuse_name(std::string_view name, const std::string& reason,
                              request_status status) {
  throw request_error(status, "shared memory region " + quoted_name(name) + ": " + reason);
}

[[nodiscard]] bool permits(const std::optional<shared_memory_permission>& permission,
                           std::string_view key) noexcept {
  return permission && key.starts_with(permission->key_prefix);
}

[[nodiscard]] bool is_permitted(const std::optional<shared_memory_permission>& permission,
                                const client_region& region) noexcept {
  return permits(permission, region.description().key) && permission->owner == region.owner();
}

/// A quarter of the descriptors that the process may have: each region has one, and so has each
/// connection, and a worker has several.
[[nodiscard]] std::size_t most_regions_of_all() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
  return static_cast<std::size_t>(limit.rlim_cur / 4);
}

}  // namespace

region_registry::region_registry(std::shared_ptr<const tenant_registry> tenants)
    : tenants_(std::move(tenants)), most_regions_(most_regions_of_all()) {}

void region_registry::require_enabled() const {
  if (is_enabled()) return;
  throw request_error(request_status::unimplemented, "shared memory is off: no tenant may use it");
}

void region_registry::add(std::string_view tenant, region_description description) {
  require_enabled();
  const auto settings = tenants_->find(tenant);
  const auto& permission = settings->shared_memory;
  const std::string name = description.name;
  if (!permission) {
    refuse_name(name, "the client may not use shared memory", request_status::permission_denied);
  }
  if (name.empty() || name.size() > most_name_bytes) {
    refuse_name(name, "the name must have 1 to 256 bytes", request_status::invalid_argument);
  }
  if (is_region_key(description.key) && !permits(permission, description.key)) {
    refuse_name(name, "the client may not use the key " + quoted_name(description.key),
                request_status::permission_denied);
  }
  const auto region =
      std::make_shared<const client_region>(std::move(description), permission->owner);
  const std::uint64_t bytes = region->description().bytes;

  const std::scoped_lock lock(mutex_);
  auto found = regions_.find(tenant);
  if (found == regions_.end()) found = regions_.try_emplace(std::string(tenant)).first;
  auto& regions = found->second;
  if (regions.by_name.contains(name)) {
    refuse_name(name, "the name is registered already; unregister it first",
                request_status::invalid_argument);
  }
  if (count_ >= most_regions_) {
    refuse_name(name, "the server has " + std::to_string(count_) + " regions of all clients",
                request_status::resource_exhausted);
  }
  if (regions.by_name.size() >= permission->regions) {
    refuse_name(name,
                "the client has " + std::to_string(regions.by_name.size()) +
                    " regions, and may not have more",
                request_status::resource_exhausted);
  }
  if (regions.bytes >= permission->bytes || bytes > permission->bytes - regions.bytes) {
    refuse_name(
        name,
        "the regions of the client would have more than " + std::to_string(permission->bytes) +
            " bytes",
        bytes > permission->bytes ? request_status::too_large : request_status::resource_exhausted);
  }
  regions.by_name.emplace(name, region);
  regions.bytes += bytes;
  ++count_;
}

void region_registry::remove_forbidden() {
  const std::scoped_lock lock(mutex_);
  for (auto& [tenant, regions] : regions_) {
    const auto settings = tenants_->find(tenant);
    count_ -= std::erase_if(regions.by_name, [&, &all = regions](const auto& each) {
      const auto& region = *each.second;
      if (is_permitted(settings->shared_memory, region)) return false;
      all.bytes -= region.description().bytes;
      return true;
    });
  }
  std::erase_if(regions_, [](const auto& each) { return each.second.by_name.empty(); });
}

void region_registry::remove(std::string_view tenant, std::string_view name) {
  const std::scoped_lock lock(mutex_);
  const auto found = regions_.find(tenant);
  if (found == regions_.end()) return;
  if (name.empty()) {
    count_ -= found->second.by_name.size();
    regions_.erase(found);
    return;
  }
  auto& regions = found->second;
  const auto region = regions.by_name.find(name);
  if (region == regions.by_name.end()) return;
  regions.bytes -= region->second->description().bytes;
  regions.by_name.erase(region);
  --count_;
}

std::vector<region_description> region_registry::list(std::string_view tenant,
                                                      std::string_view name) const {
  require_enabled();
  std::vector<region_description> list;
  const std::scoped_lock lock(mutex_);
  if (const auto found = regions_.find(tenant); found != regions_.end()) {
    for (const auto& [key, region] : found->second.by_name) {
      if (name.empty() || key == name) list.push_back(region->description());
    }
  }
  if (list.empty() && !name.empty()) {
    refuse_name(name, "it is not registered", request_status::not_found);
  }
  return list;
}

std::shared_ptr<const client_region> region_registry::find(std::string_view tenant,
                                                           std::string_view name) const {
  require_enabled();
  auto region = [&]() -> std::shared_ptr<const client_region> {
    const std::scoped_lock lock(mutex_);
    const auto regions = regions_.find(tenant);
    if (regions == regions_.end()) return nullptr;
    const auto found = regions->second.by_name.find(name);
    return found == regions->second.by_name.end() ? nullptr : found->second;
  }();
  if (!region) refuse_name(name, "it is not registered", request_status::not_found);
  const auto settings = tenants_->find(tenant);
  if (!is_permitted(settings->shared_memory, *region)) {
    refuse_name(name, "the client may not use it any more", request_status::permission_denied);
  }
  return region;
}

}  // namespace sluice::service
