// SPDX-License-Identifier: Apache-2.0
#include "models/export/replacing_file.hpp"

#include <sluice/runtime/error.hpp>

#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fcntl.h>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace sluice::models {

namespace {

namespace fs = std::filesystem;

error failure_of(errc code, const fs::path& target, int number) {
  return {code, target.string() + ": cannot be written: " + std::generic_category().message(number),
          library_status{"libc", number}};
}
/// `invalid_argument` if the path of the caller is at fault, `library_failure` if the system is.
errc code_of(int number) noexcept {
  switch (number) {
    case EACCES:
    case EPERM:
    case EROFS:
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENXIO:
    case EINVAL:
    case ETXTBSY:
    case EOPNOTSUPP:
      return errc::invalid_argument;
    default:
      return errc::library_failure;
  }
}

/// The descriptor that a path such as `/dev/stdout` or `/dev/fd/3` stands for. Opening the path
/// again would lose the position of the descriptor, so these paths are recognised by name.
std::optional<int> descriptor_named(const fs::path& path) {
  const std::string_view text = path.native();
  if (text == "/dev/stdout") return STDOUT_FILENO;
  if (text == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!text.starts_with(folder)) continue;
    const auto digits = text.substr(folder.size());
    const char* const last = digits.data() + digits.size();
    int number = -1;
    const auto [end, status] = std::from_chars(digits.data(), last, number);
    if (status == std::errc{} && end == last && number >= 0) return number;
  }
  return std::nullopt;
}

/// Where the bytes go.
struct destination {
  fs::path location{};              ///< with symbolic links followed
  std::optional<int> descriptor{};  ///< that the location stands for
  std::optional<mode_t> mode{};     ///< of the file that exists
};

destination find_destination(const fs::path& target) {
  constexpr int most_links = 40;
  destination found{.location = target};
  struct stat status {};
  for (int links = 0;; ++links) {
    found.descriptor = descriptor_named(found.location);
    if (found.descriptor) return found;
    if (::lstat(found.location.c_str(), &status) != 0) {
      if (errno != ENOENT) throw failure_of(code_of(errno), target, errno);
      if (!found.location.has_filename())
        throw invalid_argument(target.string(), "is the name of a folder, not of a file");
      return found;
    }
    if (!S_ISLNK(status.st_mode)) break;
    if (links == most_links) throw failure_of(errc::invalid_argument, target, ELOOP);
    std::error_code failure;
    const auto next = fs::read_symlink(found.location, failure);
    if (failure) throw failure_of(code_of(failure.value()), target, failure.value());
    // A relative link starts at the folder of the link; an absolute one replaces the path.
    found.location = found.location.parent_path() / next;
  }
  if (S_ISDIR(status.st_mode)) throw invalid_argument(target.string(), "is a folder, not a file");
  if (::faccessat(AT_FDCWD, found.location.c_str(), W_OK, AT_EACCESS) != 0)
    throw failure_of(code_of(errno), target, errno);
  found.mode = status.st_mode;
  return found;
}

/// A name that nobody can foresee.
std::string temporary_name() {
  std::random_device random;
  std::string name = ".sluice-";
  for (int digit = 0; digit < 16; ++digit) name += "0123456789abcdef"[random() % 16];
  return name + ".partial";
}

void flush_folder(const fs::path& location) noexcept {
  const auto folder = location.has_parent_path() ? location.parent_path() : fs::path(".");
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

replacing_file::replacing_file(const fs::path& target) : target_(target) {
  auto found = find_destination(target);
  location_ = std::move(found.location);
  if (found.descriptor) {
    descriptor_ = ::fcntl(*found.descriptor, F_DUPFD_CLOEXEC, 0);
    if (descriptor_ < 0) throw failure_of(errc::invalid_argument, target, errno);
  } else if (found.mode && !S_ISREG(*found.mode)) {
    do descriptor_ = ::open(location_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    while (descriptor_ < 0 && errno == EINTR);
    if (descriptor_ < 0) throw failure_of(code_of(errno), target, errno);
  } else {
    create_temporary();
    constexpr mode_t permissions = 0777;
    // A file system without permissions refuses this, which does no harm.
    if (found.mode) (void)::fchmod(descriptor_, *found.mode & permissions);
  }
}

replacing_file::~replacing_file() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void replacing_file::create_temporary() {
  constexpr int most_attempts = 16;
  for (int attempt = 1;; ++attempt) {
    auto path = location_.parent_path() / temporary_name();
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor_ >= 0) {
      temporary_ = std::move(path);
      return;
    }
    if (errno != EINTR && (errno != EEXIST || attempt == most_attempts))
      throw failure_of(code_of(errno), target_, errno);
  }
}

void replacing_file::complete() {
  const bool is_flushed = temporary_.empty() || ::fsync(descriptor_) == 0 || errno == EINVAL ||
                          errno == ENOTSUP;  // a file system that flushes nothing
  if (!is_flushed) fail(errno);
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) fail(errno);
  if (temporary_.empty()) return;
  if (std::rename(temporary_.c_str(), location_.c_str()) != 0) fail(errno);
  temporary_.clear();
  // A failure is harmless: the file is complete under either name.
  flush_folder(location_);
}

void replacing_file::fail(int number) const {
  throw failure_of(errc::library_failure, target_, number);
}

}  // namespace sluice::models
