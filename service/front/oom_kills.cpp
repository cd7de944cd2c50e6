// SPDX-License-Identifier: Apache-2.0
#include "service/front/oom_kills.hpp"

#include <charconv>
#include <fstream>
#include <iterator>
#include <string>

namespace sluice::service {

std::uint64_t oom_kills_in(std::string_view statistics) noexcept {
  constexpr std::string_view name = "oom_kill ";
  while (!statistics.empty()) {
    const auto line = statistics.substr(0, statistics.find('\n'));
    statistics.remove_prefix(line.size() < statistics.size() ? line.size() + 1 : line.size());
    if (!line.starts_with(name)) continue;
    std::uint64_t count = 0;
    (void)std::from_chars(line.data() + name.size(), line.data() + line.size(), count);
    return count;
  }
  return 0;
}

std::uint64_t count_oom_kills() noexcept {
  try {
    std::ifstream file("/proc/vmstat");
    return oom_kills_in(std::string(std::istreambuf_iterator<char>(file), {}));
  } catch (...) {
    return 0;
  }
}

}  // namespace sluice::service
