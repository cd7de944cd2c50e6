// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::service {

/// The system shared memory that a tenant may have the service use.
struct shared_memory_permission {
  std::string key_prefix{};                      ///< "/" and the beginning of the keys
  std::uint32_t owner = 0;                       ///< the user id of the owner of the memory
  std::uint64_t bytes = std::uint64_t{1} << 30;  ///< of all regions of the tenant
  std::size_t regions = 256;                     ///< of the tenant
};

/// How much of the service a tenant may use at the same time.
struct tenant_limits {
  static constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t requests = none;       ///< from the beginning of their inputs to their results
  std::uint64_t request_bytes = none;  ///< of the inputs of these requests
};

/// What a tenant may do besides the role of its token. The default is that of a tenant that the
/// tenant file does not name.
struct tenant_settings {
  std::optional<shared_memory_permission> shared_memory{};  ///< nothing: none
  std::optional<tenant_limits> limits{};                    ///< nothing: none but those of all
};

/// The settings of all tenants.
class tenant_table {
 public:
  /// Reads a tenant file in TOML. The table `tenant.NAME` is for the tokens of this name, and
  /// `anonymous` for clients without a token.
  ///
  ///     [tenant.alice]
  ///     requests = 100
  ///     request_bytes = "64MiB"
  ///     shared_memory_prefix = "/alice-"
  ///     shared_memory_owner = 1000
  ///     shared_memory_bytes = "1GiB"
  ///     shared_memory_regions = 256
  ///
  ///     [anonymous]
  ///
  /// `shared_memory_prefix` and `shared_memory_owner` stand together, and the other keys of shared
  /// memory need them.
  /// @throws config_error if the text is malformed, if a key is unknown, or if a value has another
  /// type or range
  [[nodiscard]] static tenant_table parse(std::string_view text);

  /// The settings of a tenant. The empty name is that of clients without a token. The reference is
  /// valid while the table lives.
  [[nodiscard]] const tenant_settings& find(std::string_view tenant) const;
  /// Whether some tenant may use shared memory.
  [[nodiscard]] bool permits_shared_memory() const noexcept;

 private:
  std::map<std::string, tenant_settings, std::less<>> tenants_{};
};

}  // namespace sluice::service
