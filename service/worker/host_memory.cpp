// SPDX-License-Identifier: Apache-2.0
#include "service/worker/host_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::service {
namespace {

constexpr auto unknown = std::numeric_limits<std::uint64_t>::max();

/// The number in a file; nothing for "max" or without the file.
[[nodiscard]] std::optional<std::uint64_t> number_in(const std::string& path) {
  std::uint64_t number = 0;
  std::ifstream file(path);
  if (file >> number) return number;
  return std::nullopt;
}

[[nodiscard]] std::uint64_t left_on_machine() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    constexpr std::size_t name = sizeof("MemAvailable:") - 1;
    if (line.rfind("MemAvailable:", 0) == 0) return std::stoull(line.substr(name)) * 1024;
  }
  return unknown;
}

/// The memory of a control group that holds contents of files, which the kernel drops on demand.
[[nodiscard]] std::uint64_t file_cache_of(const std::string& group) {
  std::uint64_t bytes = 0;
  std::ifstream file(group + "/memory.stat");
  std::string name;
  for (std::uint64_t value = 0; file >> name >> value;) {
    if (name == "active_file" || name == "inactive_file") bytes += value;
  }
  return bytes;
}

[[nodiscard]] std::uint64_t left_in(const std::string& group) {
  const auto limit = number_in(group + "/memory.max");
  const auto used = number_in(group + "/memory.current");
  if (!limit || !used) return unknown;
  const auto held = *used - std::min(*used, file_cache_of(group));
  return *limit - std::min(*limit, held);
}

/// What the control group of this process and those above it have left (version 2).
[[nodiscard]] std::uint64_t left_in_groups() {
  constexpr std::string_view prefix = "0::";
  std::uint64_t left = unknown;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(prefix)) continue;
    auto path = line.substr(prefix.size());
    while (path.size() > 1) {
      left = std::min(left, left_in("/sys/fs/cgroup" + path));
      path.resize(path.rfind('/'));
    }
    left = std::min(left, left_in("/sys/fs/cgroup"));
  }
  return left;
}

}  // namespace

std::uint64_t available_host_memory() {
  return std::min(left_on_machine(), left_in_groups());
}

}  // namespace sluice::service
