// SPDX-License-Identifier: Apache-2.0
#include "service/front/client_region.hpp"

#include "service/protocol/quoted_name.hpp"
#include "service/protocol/request_error.hpp"

#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace sluice::service {
namespace {

constexpr const char* shared_memory_folder = "/dev/shm";
constexpr std::size_t most_key_bytes = 255;

[[noreturn]] void refuse_region(const region_description& region, const std::string& reason,
                                request_status status = request_status::invalid_argument) {
  throw request_error(status, "shared memory region " + quoted_name(region.name) + ": " + reason);
}

[[nodiscard]] std::string subject_of(const region_description& region) {
  return "the key " + quoted_name(region.key);
}

[[noreturn]] void refuse_errno(const region_description& region, int number) {
  switch (number) {
    case ENOENT:
      refuse_region(region, subject_of(region) + " has no shared memory object");
    case EACCES:
      refuse_region(region, subject_of(region) + " has an object that the service may not read",
                    request_status::permission_denied);
    case EAGAIN:
      refuse_region(region, subject_of(region) + " has an object that another process holds now",
                    request_status::unavailable);
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOSPC:
    case EDQUOT:
      refuse_region(region, "the server has no descriptor or no memory for it",
                    request_status::resource_exhausted);
    case ELOOP:
    case EXDEV:
    case EISDIR:
    case ENXIO:
    case ENODEV:
      refuse_region(region, subject_of(region) + " has no regular file");
    default:
      refuse_region(region, subject_of(region) + ": " + std::generic_category().message(number),
                    request_status::internal);
  }
}

/// Opens a file that is beneath the folder and on its file system: a link would lead elsewhere, and
/// a file system of the client could keep a thread waiting. Negative after an error.
[[nodiscard]] file_descriptor open_beneath(const file_descriptor& folder, const char* name,
                                           int access) noexcept {
  open_how how{};
  // O_NONBLOCK: a FIFO is refused, not waited for.
  how.flags = static_cast<std::uint64_t>(access | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
  // No loop: EAGAIN also means that a client has a lease of the file, which it gives back when it
  // wants to.
  return file_descriptor(
      static_cast<int>(::syscall(SYS_openat2, folder.get(), name, &how, sizeof how)));
}

/// Calls `transfer` with an offset until all bytes are there. Returns false at the end of the file.
template <class Bytes, class Transfer>
[[nodiscard]] bool transfer_all(const region_description& region, std::uint64_t offset,
                                std::span<Bytes> bytes, Transfer transfer) {
  // The kernel transfers at most 2 GiB at once.
  constexpr std::size_t most_bytes = std::size_t{1} << 30;
  while (!bytes.empty()) {
    const auto count =
        transfer(bytes.data(), std::min(bytes.size(), most_bytes), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse_errno(region, errno);
    if (count == 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return true;
}

}  // namespace

bool is_region_key(std::string_view key) noexcept {
  if (key.size() < 2 || key.size() > 1 + most_key_bytes || key.front() != '/') return false;
  const auto name = key.substr(1);
  return name != "." && name != ".." && std::none_of(name.begin(), name.end(), [](char c) {
           return c == '/' || static_cast<unsigned char>(c) < ' ' || c == 0x7f;
         });
}

client_region::client_region(region_description description, std::uint32_t owner)
    : description_(std::move(description)), owner_(owner) {
  if (!is_region_key(description_.key)) {
    refuse_region(description_, subject_of(description_) +
                                    R"( is not "/" and a name of at most 255 bytes without "/")");
  }
  const file_descriptor folder(::open(shared_memory_folder, O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) refuse_errno(description_, errno);
  const char* const name = description_.key.c_str() + 1;
  file_ = open_beneath(folder, name, O_RDWR);
  if (!file_ && (errno == EACCES || errno == EROFS)) {
    is_writable_ = false;
    file_ = open_beneath(folder, name, O_RDONLY);
  }
  if (!file_) refuse_errno(description_, errno);

  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) refuse_errno(description_, errno);
  if (!S_ISREG(status.st_mode)) {
    refuse_region(description_, subject_of(description_) + " has no regular file");
  }
  if (status.st_uid != owner_) {
    refuse_region(description_,
                  subject_of(description_) + " has an object of another user than permitted",
                  request_status::permission_denied);
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (description_.bytes == 0) refuse_region(description_, "byte_size is 0");
  if (description_.offset > size || description_.bytes > size - description_.offset) {
    refuse_region(description_, "offset " + std::to_string(description_.offset) +
                                    " and byte_size " + std::to_string(description_.bytes) +
                                    " exceed the object, which has " + std::to_string(size) +
                                    " bytes");
  }
}

void client_region::check_range(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset > description_.bytes || bytes > description_.bytes - offset) {
    refuse_region(description_, "shared_memory_offset " + std::to_string(offset) +
                                    " and shared_memory_byte_size " + std::to_string(bytes) +
                                    " exceed the region, which has " +
                                    std::to_string(description_.bytes) + " bytes");
  }
}

void client_region::check_file(std::uint64_t offset, std::uint64_t bytes) const {
  check_range(offset, bytes);
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) refuse_errno(description_, errno);
  if (static_cast<std::uint64_t>(status.st_size) < description_.offset + offset + bytes) {
    refuse_truncated();
  }
}

void client_region::read(std::uint64_t offset, std::span<std::byte> target) const {
  check_range(offset, target.size());
  const bool is_complete = transfer_all(description_, description_.offset + offset, target,
                                        [this](std::byte* bytes, std::size_t size, off_t position) {
                                          return ::pread(file_.get(), bytes, size, position);
                                        });
  if (!is_complete) refuse_truncated();
}

void client_region::write(std::uint64_t offset, std::span<const std::byte> source) const {
  check_file(offset, source.size());
  const bool is_complete =
      transfer_all(description_, description_.offset + offset, source,
                   [this](const std::byte* bytes, std::size_t size, off_t position) {
                     return ::pwrite(file_.get(), bytes, size, position);
                   });
  if (!is_complete) refuse_truncated();
}

void client_region::refuse_truncated() const {
  refuse_region(description_, "its object has been truncated");
}

}  // namespace sluice::service
