// SPDX-License-Identifier: Apache-2.0
#include "operations/core/disk_cache.hpp"

#include "operations/core/content_hash.hpp"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <system_error>
#include <unistd.h>

namespace sluice::operations {
namespace {

constexpr std::array<char, 8> magic{'s', 'l', 'u', 'i', 'c', 'e', 'k', '1'};
constexpr std::uint64_t max_file_bytes = std::uint64_t{64} << 20U;  // of a file

/// The beginning of a file; the origin and the bytes follow.
struct file_header {
  std::array<char, 8> magic;
  std::uint64_t origin_bytes;
  std::uint64_t bytes;
  std::uint64_t checksum;  ///< of the origin and the bytes
};

std::uint64_t checksum_of(std::string_view origin, std::string_view bytes) noexcept {
  return content_hash().add(origin).add(bytes).value();
}

/// Writes to a file. Returns whether everything is written.
bool write_all(int descriptor, const void* bytes, std::size_t size) noexcept {
  const auto* next = static_cast<const char*>(bytes);
  while (size > 0) {
    const auto written = write(descriptor, next, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    next += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

}  // namespace

disk_cache disk_cache::of_user(std::string_view kind) {
  if (const char* const folder = std::getenv("SLUICE_CACHE"); folder != nullptr) {
    return *folder == '\0' ? disk_cache() : disk_cache(std::filesystem::path(folder) / kind);
  }
  const auto name = std::filesystem::path("sluice") / kind;
  if (const char* const folder = std::getenv("XDG_CACHE_HOME");
      folder != nullptr && *folder == '/') {
    return disk_cache(folder / name);
  }
  const char* const home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return {};
  return disk_cache(std::filesystem::path(home) / ".cache" / name);
}

std::filesystem::path disk_cache::file_of(std::string_view origin) const {
  std::array<char, 17> name{};
  constexpr std::string_view digits = "0123456789abcdef";
  auto hash = content_hash().add(origin).value();
  for (std::size_t i = 16; i-- > 0; hash >>= 4U) name[i] = digits[hash & 0xfU];
  return folder_ / (std::string(name.data()) + ".bin");
}

std::optional<std::vector<char>> disk_cache::find(std::string_view origin) const noexcept {
  if (folder_.empty()) return std::nullopt;
  try {
    const auto path = file_of(origin);
    if (!std::filesystem::is_regular_file(path)) return std::nullopt;  // a pipe would block
    std::ifstream file(path, std::ios::binary);
    file_header header{};
    if (!file.read(reinterpret_cast<char*>(&header), sizeof header) || header.magic != magic ||
        header.origin_bytes != origin.size() || header.bytes > max_file_bytes) {
      return std::nullopt;
    }
    std::string found(origin.size(), '\0');
    std::vector<char> bytes(header.bytes);
    if (!file.read(found.data(), static_cast<std::streamsize>(found.size())) || found != origin ||
        !file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())) ||
        header.checksum != checksum_of(found, {bytes.data(), bytes.size()})) {
      return std::nullopt;
    }
    return bytes;
  } catch (...) {
    return std::nullopt;
  }
}

void disk_cache::keep(std::string_view origin, const std::vector<char>& bytes) const noexcept {
  if (folder_.empty() || bytes.size() > max_file_bytes) return;
  try {
    namespace files = std::filesystem;
    std::error_code failure;
    files::create_directories(folder_, failure);
    const auto target = file_of(origin);
    std::size_t count = 0;
    for (auto entry = files::directory_iterator(folder_, failure);
         !failure && entry != files::directory_iterator() && !files::exists(target);
         entry.increment(failure)) {
      if (++count == max_files) return;
    }
    // The name is new, and no link of that name is followed.
    auto name = target.string() + ".XXXXXX";
    const int descriptor = mkostemp(name.data(), O_CLOEXEC);
    if (descriptor < 0) return;
    const file_header header{magic, origin.size(), bytes.size(),
                             checksum_of(origin, {bytes.data(), bytes.size()})};
    const bool is_written = write_all(descriptor, &header, sizeof header) &&
                            write_all(descriptor, origin.data(), origin.size()) &&
                            write_all(descriptor, bytes.data(), bytes.size());
    const bool is_whole = close(descriptor) == 0 && is_written;
    if (is_whole) files::rename(name, target, failure);
    if (!is_whole || failure) files::remove(name, failure);
  } catch (...) {
    // The next process makes it again.
  }
}

}  // namespace sluice::operations
