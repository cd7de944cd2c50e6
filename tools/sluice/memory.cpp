// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/memory.hpp"

#include "tools/io/displayed.hpp"

#include <sluice/runtime/error.hpp>

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <unistd.h>

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

std::size_t difference(std::size_t limit, std::size_t usage) noexcept {
  return usage < limit ? limit - usage : 0;
}

/// The number that follows the word `key` in a file of lines "key number ...".
std::optional<std::size_t> number_after(const fs::path& file, std::string_view key) {
  std::ifstream lines(file);
  std::string line;
  while (std::getline(lines, line)) {
    if (!line.starts_with(key)) continue;
    try {
      return std::stoull(line.substr(key.size()));
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

/// The number at the beginning of a file; none for "max".
std::optional<std::size_t> number_in(const fs::path& file) {
  return number_after(file, "");
}

/// The bytes that the control group in `folder` still allows: its limit minus the memory in use
/// that the kernel cannot drop. Tries the file names of version 2, then those of version 1.
std::size_t allowed_by_group(const fs::path& folder) {
  auto limit = number_in(folder / "memory.max");
  auto usage = number_in(folder / "memory.current");
  auto droppable = number_after(folder / "memory.stat", "inactive_file ");
  if (!usage) {
    limit = number_in(folder / "memory.limit_in_bytes");
    usage = number_in(folder / "memory.usage_in_bytes");
    droppable = number_after(folder / "memory.stat", "total_inactive_file ");
  }
  if (!limit || !usage) return unlimited;
  return difference(*limit, difference(*usage, droppable.value_or(0)));
}

/// The smallest such number among the groups of this process and their ancestors.
std::size_t allowed_by_groups() {
  std::size_t allowed = unlimited;
  std::ifstream lines("/proc/self/cgroup");  // hierarchy:controllers:path
  std::string line;
  while (std::getline(lines, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second =
        first == std::string::npos ? std::string::npos : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool version_2 = controllers.empty();
    if (!version_2 && controllers.find("memory") == std::string::npos) continue;
    const fs::path root = version_2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    // In a container the path may be that of the host, and only the root of the tree is visible.
    fs::path group = fs::path(line.substr(second + 1)).relative_path();
    for (;; group = group.parent_path()) {
      allowed = std::min(allowed, allowed_by_group(root / group));
      if (group.empty()) break;
    }
  }
  return allowed;
}

std::size_t allowed_by_address_space() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unlimited;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return difference(limit.rlim_cur, number_in("/proc/self/statm").value_or(0) * page);
}

std::size_t free_in_system() {
  if (const auto kilobytes = number_after("/proc/meminfo", "MemAvailable:"))
    return saturating_multiply(*kilobytes, 1024);
  return saturating_multiply(static_cast<std::size_t>(::sysconf(_SC_AVPHYS_PAGES)),
                             static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
}

std::string megabytes(std::size_t bytes) {
  return fmt::format("{:.6g} MB", std::max(0.1, static_cast<double>(bytes) / 1e6));
}

/// Throws if `needed` exceeds `available`.
void require_available(std::string_view subject, std::size_t needed, std::size_t available,
                       std::string_view where) {
  // The remaining sixteenth is for everything that is not an array.
  const std::size_t usable = available - available / 16;
  if (needed <= usable) return;
  const std::string wanted =
      needed == unlimited ? "more than 2^64 bytes of memory" : megabytes(needed) + " of memory";
  throw error(errc::invalid_argument, fmt::format("{}: the arrays need {}, but {} has {}", subject,
                                                  wanted, where, megabytes(usable)));
}

}  // namespace

std::size_t saturating_add(std::size_t a, std::size_t b) noexcept {
  std::size_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? unlimited : sum;
}

std::size_t saturating_multiply(std::size_t a, std::size_t b) noexcept {
  std::size_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? unlimited : product;
}

std::size_t available_memory() {
  return std::min({free_in_system(), allowed_by_groups(), allowed_by_address_space()});
}

void require_memory(std::string_view subject, const device_info& device, std::size_t host_bytes,
                    std::size_t device_bytes) {
  const bool shared = device.id.kind == device_kind::host;
  require_available(subject, shared ? saturating_add(host_bytes, device_bytes) : host_bytes,
                    available_memory(), "this process");
  if (!shared) require_available(subject, device_bytes, device.memory_bytes, to_string(device.id));
}

void require_memory_for_file(const fs::path& path) {
  std::error_code failure;
  if (!fs::is_regular_file(path, failure)) return;
  const auto bytes = fs::file_size(path, failure);
  if (!failure) require_available(io::displayed(path), bytes, available_memory(), "this process");
}

}  // namespace sluice::cli
