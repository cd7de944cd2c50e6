// SPDX-License-Identifier: Apache-2.0
#include "service/front/host_policy.hpp"

#include "service/front/ascii_case.hpp"

#include <algorithm>
#include <utility>

namespace sluice::service {
namespace {

[[nodiscard]] bool is_port(std::string_view text) noexcept {
  return text.empty() ||
         (text.front() == ':' && text.size() <= 6 &&
          std::all_of(text.begin() + 1, text.end(), [](char c) { return c >= '0' && c <= '9'; }));
}

}  // namespace

host_policy::host_policy(std::vector<std::string> names)
    : is_restricted_(true), names_(std::move(names)) {
  for (const char* name : {"localhost", "127.0.0.1", "::1"}) names_.emplace_back(name);
}

bool host_policy::permits(std::string_view host) const noexcept {
  if (!is_restricted_) return true;
  std::string_view name = host.substr(0, host.find(':'));
  std::string_view port = host.substr(name.size());
  if (host.substr(0, 1) == "[") {
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos) return false;
    name = host.substr(1, end - 1);
    port = host.substr(end + 1);
  }
  return is_port(port) && std::any_of(names_.begin(), names_.end(), [&](const std::string& n) {
           return equals_ignoring_case(n, name);
         });
}

}  // namespace sluice::service
