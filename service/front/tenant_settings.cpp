// SPDX-License-Identifier: Apache-2.0
#include "service/front/tenant_settings.hpp"

#include "service/repository/config_text.hpp"
#include "service/repository/key_reader.hpp"
#include "service/repository/model_config.hpp"
#include "service/repository/model_index.hpp"

#include <algorithm>
#include <limits>

namespace sluice::service {
namespace {

constexpr std::int64_t most_regions = 10'000;

[[nodiscard]] std::optional<shared_memory_permission> read_shared_memory(key_reader& keys) {
  constexpr std::string_view prefix = "shared_memory_prefix";
  constexpr std::string_view owner = "shared_memory_owner";
  if (keys.has(prefix) != keys.has(owner)) {
    throw config_error(keys.path_of(prefix) + " and " + keys.path_of(owner) + " need each other");
  }
  if (!keys.has(prefix)) return std::nullopt;
  shared_memory_permission permission{.key_prefix = keys.text(prefix)};
  if (permission.key_prefix.rfind('/') != 0) {
    throw config_error(keys.path_of(prefix) + R"( must begin with "/" and have no other "/")");
  }
  // The largest number is no user.
  constexpr std::int64_t most_owner = std::numeric_limits<std::uint32_t>::max() - 1;
  permission.owner = static_cast<std::uint32_t>(keys.integer(owner, 0, 0, most_owner));
  permission.bytes = keys.bytes("shared_memory_bytes", permission.bytes);
  permission.regions = static_cast<std::size_t>(keys.integer(
      "shared_memory_regions", static_cast<std::int64_t>(permission.regions), 1, most_regions));
  return permission;
}

[[nodiscard]] std::optional<tenant_limits> read_limits(key_reader& keys) {
  constexpr std::string_view requests = "requests";
  constexpr std::string_view bytes = "request_bytes";
  if (!keys.has(requests) && !keys.has(bytes)) return std::nullopt;
  tenant_limits limits;
  if (keys.has(requests)) {
    limits.requests = static_cast<std::uint64_t>(
        keys.integer(requests, 1, 1, std::numeric_limits<std::int64_t>::max()));
  }
  limits.request_bytes = keys.bytes(bytes, limits.request_bytes);
  return limits;
}

[[nodiscard]] tenant_settings read_settings(key_reader keys) {
  tenant_settings settings;
  settings.limits = read_limits(keys);
  settings.shared_memory = read_shared_memory(keys);
  keys.finish();
  return settings;
}

}  // namespace

tenant_table tenant_table::parse(std::string_view text) {
  const auto tree = parse_toml(text);
  key_reader file(tree, "");
  tenant_table table;
  for (auto& [name, keys] : file.named_tables("tenant")) {
    if (!is_model_name(name) || name == "anonymous") {
      throw config_error(keys.path() + " is the name of no token" +
                         (name == "anonymous" ? ": the table is [anonymous]" : ""));
    }
    table.tenants_.emplace(name, read_settings(keys));
  }
  if (file.has("anonymous")) table.tenants_.emplace("", read_settings(file.table("anonymous")));
  file.finish();
  return table;
}

const tenant_settings& tenant_table::find(std::string_view tenant) const {
  static const tenant_settings missing{};
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? missing : found->second;
}

bool tenant_table::permits_shared_memory() const noexcept {
  return std::any_of(tenants_.begin(), tenants_.end(),
                     [](const auto& tenant) { return tenant.second.shared_memory.has_value(); });
}

}  // namespace sluice::service
