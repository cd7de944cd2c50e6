// SPDX-License-Identifier: Apache-2.0
#include "service/repository/repository_folder.hpp"

#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <string_view>
#include <system_error>
#include <unistd.h>

namespace sluice::service {
namespace {

constexpr int file_flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
constexpr std::int64_t second_ns = 1'000'000'000;

[[noreturn]] void fail(int number) {
  switch (number) {
    case EXDEV:
      throw repository_error("a symbolic link leaves the folder", number);
    case ELOOP:
      throw repository_error("there are too many symbolic links, or one of /proc", number);
    case ENOSYS:
      throw repository_error("the kernel has no openat2; Linux 5.6 or newer is needed", number);
    case EPERM:
      throw repository_error(
          "it is not permitted, perhaps because a filter of system calls does not know openat2",
          number);
    case ENXIO:
    case ENODEV:
      throw repository_error("it is not a regular file", number);
    default:
      throw repository_error(std::generic_category().message(number), number);
  }
}

file_descriptor open_beneath(const file_descriptor& folder, const std::string& path, int flags) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  // EAGAIN: something was renamed while a path with ".." was resolved. EINTR: a network file system
  // was interrupted by a signal.
  for (int attempts = 0; attempts < 16; ++attempts) {
    const long result = ::syscall(SYS_openat2, folder.get(), path.c_str(), &how, sizeof(how));
    if (result >= 0) return file_descriptor(static_cast<int>(result));
    if (errno != EAGAIN && errno != EINTR) break;
  }
  fail(errno);
}

struct stat stat_of(const file_descriptor& file) {
  struct stat result {};
  if (::fstat(file.get(), &result) != 0) fail(errno);
  return result;
}

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * second_ns + time.tv_nsec;
}

open_file opened(file_descriptor descriptor) {
  const auto status = status_of(descriptor);
  return {std::move(descriptor), status};
}

}  // namespace

file_status status_of(const file_descriptor& file) {
  const auto status = stat_of(file);
  if (!S_ISREG(status.st_mode)) throw repository_error("it is not a regular file");
  const auto modified = nanoseconds(status.st_mtim);
  return {.identity = {.device = status.st_dev,
                       .inode = status.st_ino,
                       .size = static_cast<std::uint64_t>(status.st_size),
                       .modified_ns = modified},
          .precedes_its_inode = nanoseconds(status.st_ctim) - modified >= 2 * second_ns};
}

open_file open_regular_file(const std::filesystem::path& path) {
  file_descriptor file(::open(path.c_str(), file_flags));
  if (!file) fail(errno);
  return opened(std::move(file));
}

repository_folder::repository_folder(const std::filesystem::path& path)
    : folder_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (!folder_) fail(errno);
}

open_file repository_folder::open(const std::string& path) const {
  return opened(open_beneath(folder_, path, file_flags));
}

repository_folder repository_folder::folder(const std::string& path) const {
  return repository_folder(open_beneath(folder_, path, O_PATH | O_DIRECTORY | O_CLOEXEC));
}

std::vector<std::string> repository_folder::names(std::size_t most) const {
  auto folder = open_beneath(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(folder.get()), &::closedir);
  if (!entries) fail(errno);
  (void)folder.release();  // closedir closes it

  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    // Only threads that share the stream would race.
    const dirent* entry = ::readdir(entries.get());  // NOLINT(concurrency-mt-unsafe)
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name.front() == '.') continue;
    if (names.size() == most)
      throw repository_error("the folder has more than " + std::to_string(most) + " entries");
    names.emplace_back(name);
  }
  if (errno != 0) fail(errno);
  return names;
}

}  // namespace sluice::service
