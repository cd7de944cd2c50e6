// SPDX-License-Identifier: Apache-2.0
#include "service/front/protected_file.hpp"

#include "service/base/file_descriptor.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <fcntl.h>
#include <stdexcept>
#include <system_error>
#include <unistd.h>

namespace sluice::service {
namespace {

[[noreturn]] void refuse_file(const std::string& path, const std::string& reason) {
  throw std::runtime_error(path + ": " + reason);
}

[[noreturn]] void refuse_errno(const std::string& path) {
  refuse_file(path, std::generic_category().message(errno));
}

void check_status(const std::string& path, const struct stat& status, file_readers readers) {
  if (!S_ISREG(status.st_mode)) refuse_file(path, "it is no regular file");
  if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    refuse_file(path, "its owner is neither this user nor root");
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    refuse_file(path, "others than its owner may write to it (chmod go-w)");
  }
  if (readers == file_readers::nobody && (status.st_mode & S_IROTH) != 0) {
    refuse_file(path, "everybody may read it (chmod o-r)");
  }
}

}  // namespace

std::string read_protected_file(const std::string& path, file_readers readers) {
  // O_NONBLOCK: a FIFO is refused, not waited for.
  const file_descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) refuse_errno(path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) refuse_errno(path);
  check_status(path, status, readers);
  std::string text(max_protected_bytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const auto count = ::read(file.get(), text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse_errno(path);
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  if (size > max_protected_bytes) refuse_file(path, "it has more than 1 MiB");
  text.resize(size);
  return text;
}

}  // namespace sluice::service
