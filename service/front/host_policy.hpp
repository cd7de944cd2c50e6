// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::service {

/// Which names of the server requests may have in their field `Host`.
///
/// A page of any web site can let a browser send requests to a loopback address, under a name of
/// its own that resolves to it. A server on such an address therefore answers only to names that it
/// knows.
class host_policy {
 public:
  /// Accepts any name.
  host_policy() = default;
  /// Accepts localhost, 127.0.0.1, ::1 and `names`.
  explicit host_policy(std::vector<std::string> names);

  /// Whether the policy accepts only some names, and no request of a page.
  [[nodiscard]] bool is_restricted() const noexcept { return is_restricted_; }
  /// Whether `host`, a name or an address with or without a port, is accepted. Addresses of IPv6
  /// stand in brackets.
  [[nodiscard]] bool permits(std::string_view host) const noexcept;

 private:
  bool is_restricted_ = false;
  std::vector<std::string> names_{};
};

}  // namespace sluice::service
