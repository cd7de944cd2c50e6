// SPDX-License-Identifier: Apache-2.0
#include "operations/fusion/kernel_cache.hpp"

#include "operations/fusion/content_hash.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <system_error>
#include <unistd.h>

namespace sluice::operations {
namespace {

constexpr std::array<char, 8> magic{'s', 'l', 'u', 'i', 'c', 'e', 'k', '1'};
constexpr std::uint64_t max_file_bytes = std::uint64_t{64} << 20U;  // of a file

/// The beginning of a file; the origin and the code follow.
struct file_header {
  std::array<char, 8> magic;
  std::uint64_t origin_bytes;
  std::uint64_t code_bytes;
  std::uint64_t checksum;  ///< of the origin and the code
};

std::uint64_t checksum_of(std::string_view origin, std::string_view code) noexcept {
  return content_hash().add(origin).add(code).value();
}

}  // namespace

kernel_cache kernel_cache::of_user() {
  if (const char* const folder = std::getenv("SLUICE_KERNEL_CACHE"); folder != nullptr) {
    return *folder == '\0' ? kernel_cache() : kernel_cache(folder);
  }
  const std::filesystem::path below = std::filesystem::path("sluice") / "kernels";
  if (const char* const folder = std::getenv("XDG_CACHE_HOME");
      folder != nullptr && *folder == '/') {
    return kernel_cache(folder / below);
  }
  const char* const home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return {};
  return kernel_cache(std::filesystem::path(home) / ".cache" / below);
}

std::filesystem::path kernel_cache::file_of(std::string_view origin) const {
  std::array<char, 17> name{};
  constexpr std::string_view digits = "0123456789abcdef";
  auto hash = content_hash().add(origin).value();
  for (std::size_t i = 16; i-- > 0; hash >>= 4U) name[i] = digits[hash & 0xfU];
  return folder_ / (std::string(name.data()) + ".cubin");
}

std::optional<std::vector<char>> kernel_cache::find(std::string_view origin) const noexcept {
  if (folder_.empty()) return std::nullopt;
  try {
    std::ifstream file(file_of(origin), std::ios::binary);
    file_header header{};
    if (!file.read(reinterpret_cast<char*>(&header), sizeof header) || header.magic != magic ||
        header.origin_bytes != origin.size() || header.code_bytes > max_file_bytes) {
      return std::nullopt;
    }
    std::string found(origin.size(), '\0');
    std::vector<char> code(header.code_bytes);
    if (!file.read(found.data(), static_cast<std::streamsize>(found.size())) || found != origin ||
        !file.read(code.data(), static_cast<std::streamsize>(code.size())) ||
        header.checksum != checksum_of(found, {code.data(), code.size()})) {
      return std::nullopt;
    }
    return code;
  } catch (...) {
    return std::nullopt;
  }
}

void kernel_cache::keep(std::string_view origin, const std::vector<char>& code) const noexcept {
  if (folder_.empty() || code.size() > max_file_bytes) return;
  try {
    namespace files = std::filesystem;
    std::error_code failure;
    files::create_directories(folder_, failure);
    std::size_t count = 0;
    for (auto entry = files::directory_iterator(folder_, failure);
         !failure && entry != files::directory_iterator(); entry.increment(failure)) {
      if (++count == max_files) return;
    }
    static std::atomic<unsigned> last{0};
    const auto target = file_of(origin);
    auto written = target;
    written += "." + std::to_string(getpid()) + "." + std::to_string(++last) + ".tmp";
    {
      const file_header header{magic, origin.size(), code.size(),
                               checksum_of(origin, {code.data(), code.size()})};
      std::ofstream file(written, std::ios::binary | std::ios::trunc);
      file.write(reinterpret_cast<const char*>(&header), sizeof header);
      file.write(origin.data(), static_cast<std::streamsize>(origin.size()));
      file.write(code.data(), static_cast<std::streamsize>(code.size()));
      file.close();
      if (file) files::rename(written, target, failure);
      if (!file || failure) files::remove(written, failure);
    }
  } catch (...) {
    // The next process compiles the kernel again.
  }
}

}  // namespace sluice::operations
