// SPDX-License-Identifier: Apache-2.0
#include "service/repository/model_index.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

namespace sluice::service {

std::vector<std::uint64_t> served_versions(const indexed_model& model) {
  std::vector<std::uint64_t> available;
  if (!model.config) return available;
  for (const auto& [number, version] : model.versions)
    if (version.has_files()) available.push_back(number);
  return chosen_versions(model.config->versions, available);
}

bool is_model_name(std::string_view name) noexcept {
  if (name.empty() || name.size() > 255 || name.front() == '.') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

std::optional<std::uint64_t> version_number(std::string_view name) noexcept {
  if (name.empty() || name.front() < '1' || name.front() > '9') return std::nullopt;
  std::uint64_t number = 0;
  const auto* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  if (number > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) return std::nullopt;
  return number;
}

}  // namespace sluice::service
