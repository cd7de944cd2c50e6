// SPDX-License-Identifier: Apache-2.0
#include "service/worker/host_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

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
[[nodiscard]] std::uint64_t file_cache_of_group() {
  std::uint64_t bytes = 0;
  std::ifstream file("/sys/fs/cgroup/memory.stat");
  std::string name;
  for (std::uint64_t value = 0; file >> name >> value;) {
    if (name == "active_file" || name == "inactive_file") bytes += value;
  }
  return bytes;
}

/// Within a container, the files of the root are those of its control group (version 2).
[[nodiscard]] std::uint64_t left_in_group() {
  const auto limit = number_in("/sys/fs/cgroup/memory.max");
  const auto used = number_in("/sys/fs/cgroup/memory.current");
  if (!limit || !used) return unknown;
  const auto held = *used - std::min(*used, file_cache_of_group());
  return *limit - std::min(*limit, held);
}

}  // namespace

std::uint64_t available_host_memory() {
  return std::min(left_on_machine(), left_in_group());
}

}  // namespace sluice::service
