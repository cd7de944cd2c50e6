// SPDX-License-Identifier: Apache-2.0
#include "tools/io/byte_source.hpp"

#include "tools/io/displayed.hpp"

#include <sluice/runtime/error.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace sluice::io {

namespace {

constexpr std::size_t block_size = std::size_t{1} << 20;

std::string system_message(int number) {
  return std::generic_category().message(number);
}

}  // namespace

std::vector<std::byte> read_up_to(byte_source& source, std::uint64_t count) {
  std::vector<std::byte> bytes;
  const std::optional<std::uint64_t> available = source.remaining();
  while (bytes.size() < count) {
    const std::uint64_t missing = count - bytes.size();
    const std::uint64_t block =
        available ? std::min(missing, *available)
                  : std::min<std::uint64_t>(missing, std::max(block_size, bytes.size()));
    if (block == 0) break;
    const std::size_t filled = bytes.size();
    bytes.resize(filled + static_cast<std::size_t>(block));
    const std::size_t received = source.read(std::span(bytes).subspan(filled));
    bytes.resize(filled + received);
    if (available || received < block) break;
  }
  return bytes;
}

std::uint64_t skip(byte_source& source, std::uint64_t count) {
  std::array<std::byte, 16384> dropped;
  std::uint64_t skipped = 0;
  while (skipped < count) {
    const auto block =
        static_cast<std::size_t>(std::min<std::uint64_t>(count - skipped, dropped.size()));
    const std::size_t received = source.read(std::span(dropped).first(block));
    skipped += received;
    if (received < block) break;
  }
  return skipped;
}

std::size_t span_source::read(std::span<std::byte> into) {
  const std::size_t count = std::min(into.size(), bytes_.size());
  if (count != 0) std::memcpy(into.data(), bytes_.data(), count);
  bytes_ = bytes_.subspan(count);
  return count;
}

file_source::file_source(const std::filesystem::path& path) : byte_source(displayed(path)) {
  // Opening /dev/stdin again would start at the beginning of a file and would fail for a socket.
  const bool standard_input = path == "/dev/stdin";
  do {
    descriptor_ = standard_input ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) {
    const int number = errno;
    const bool exhausted = number == EMFILE || number == ENFILE || number == ENOMEM;
    throw error(exhausted ? errc::library_failure : errc::invalid_argument,
                name() + ": cannot be opened: " + system_message(number),
                library_status{"libc", number});
  }
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0) {
    if (S_ISDIR(status.st_mode)) {
      ::close(descriptor_);
      throw error(errc::invalid_argument, name() + ": is a folder, not a file");
    }
    // Virtual files, such as those in /proc, report the size 0.
    if (S_ISREG(status.st_mode) && status.st_size > 0)
      size_ = static_cast<std::uint64_t>(status.st_size);
    if (const off_t begun = ::lseek(descriptor_, 0, SEEK_CUR); begun > 0)
      position_ = static_cast<std::uint64_t>(begun);
  }
}

file_source::~file_source() {
  ::close(descriptor_);
}

std::size_t file_source::read(std::span<std::byte> into) {
  std::size_t filled = 0;
  while (filled < into.size()) {
    const ssize_t received = ::read(descriptor_, into.data() + filled, into.size() - filled);
    if (received < 0) {
      if (errno == EINTR) continue;
      const int number = errno;
      throw error(errc::library_failure, name() + ": cannot be read: " + system_message(number),
                  library_status{"libc", number});
    }
    if (received == 0) break;
    filled += static_cast<std::size_t>(received);
  }
  position_ += filled;
  return filled;
}

std::optional<std::uint64_t> file_source::remaining() const noexcept {
  if (!size_) return std::nullopt;
  return *size_ > position_ ? *size_ - position_ : 0;
}

}  // namespace sluice::io
