// SPDX-License-Identifier: Apache-2.0
#include "tools/io/output_file.hpp"

#include "tools/io/displayed.hpp"

#include <sluice/runtime/error.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fcntl.h>
#include <optional>
#include <pthread.h>
#include <signal.h>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace sluice::io {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(errc code, const fs::path& target, const std::string& description,
                       int number) {
  throw error(
      code, displayed(target) + ": " + description + ": " + std::generic_category().message(number),
      library_status{"libc", number});
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

/// The destination of the bytes: an open descriptor, a special file, or a name in a folder.
struct destination {
  enum class kind { descriptor, special, regular };
  kind type = kind::regular;
  int descriptor = -1;
  fs::path location;                  ///< the target with symbolic links followed
  std::optional<mode_t> permissions;  ///< of the file to replace
};

/// The descriptor that a path such as `/dev/stdout` or `/dev/fd/3` stands for. Opening the path
/// again would lose the position of the descriptor, so these paths are recognised by name.
std::optional<int> descriptor_named(const fs::path& path) {
  const std::string& text = path.native();
  if (text == "/dev/stdout") return STDOUT_FILENO;
  if (text == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!std::string_view(text).starts_with(folder)) continue;
    const char* const first = text.data() + folder.size();
    const char* const last = text.data() + text.size();
    int number = -1;
    const auto [end, status] = std::from_chars(first, last, number);
    if (status == std::errc{} && end == last && number >= 0) return number;
  }
  return std::nullopt;
}

destination find_destination(const fs::path& target) {
  constexpr int maximum_links = 40;
  if (target.empty()) throw error(errc::invalid_argument, "the name of the output file is empty");
  destination found;
  found.location = target;
  struct stat status {};
  for (int links = 0;; ++links) {
    if (const auto number = descriptor_named(found.location)) {
      found.type = destination::kind::descriptor;
      found.descriptor = *number;
      return found;
    }
    if (::lstat(found.location.c_str(), &status) != 0) {
      const int number = errno;
      if (number != ENOENT) fail(code_of(number), target, "cannot be written", number);
      if (!found.location.has_filename())
        throw error(errc::invalid_argument,
                    displayed(target) + ": is the name of a folder, not of a file");
      return found;
    }
    if (!S_ISLNK(status.st_mode)) break;
    if (links == maximum_links) fail(errc::invalid_argument, target, "cannot be written", ELOOP);
    std::error_code failure;
    const fs::path next = fs::read_symlink(found.location, failure);
    if (failure) fail(code_of(failure.value()), target, "cannot be written", failure.value());
    // A relative link starts at the folder of the link; an absolute one replaces the path.
    found.location = found.location.parent_path() / next;
  }
  if (S_ISDIR(status.st_mode))
    throw error(errc::invalid_argument, displayed(target) + ": is a folder, not a file");
  if (::faccessat(AT_FDCWD, found.location.c_str(), W_OK, AT_EACCESS) != 0)
    fail(code_of(errno), target, "cannot be written", errno);
  if (S_ISREG(status.st_mode))
    found.permissions = status.st_mode & static_cast<mode_t>(0777);
  else
    found.type = destination::kind::special;
  return found;
}

/// Creates `temporary` in the folder of `location`. Returns its descriptor.
int make_temporary(const fs::path& target, const fs::path& location, partial_file& temporary) {
  const int descriptor = temporary.create(location.parent_path());
  if (descriptor >= 0) return descriptor;
  const int number = errno;
  fail(code_of(number), target,
       number == ENOENT || number == ENOTDIR ? "the folder does not exist"
                                             : "the folder cannot be written",
       number);
}

/// Blocks SIGXFSZ in this thread. A write beyond the limit on file sizes then fails with EFBIG
/// instead of ending the process.
class file_size_signal_block {
 public:
  file_size_signal_block() noexcept {
    ::sigemptyset(&blocked_);
    ::sigaddset(&blocked_, SIGXFSZ);
    active_ = ::pthread_sigmask(SIG_BLOCK, &blocked_, &previous_) == 0 &&
              ::sigismember(&previous_, SIGXFSZ) == 0;
  }
  file_size_signal_block(const file_size_signal_block&) = delete;
  file_size_signal_block& operator=(const file_size_signal_block&) = delete;
  ~file_size_signal_block() {
    if (!active_) return;
    const timespec no_time{};
    ::sigtimedwait(&blocked_, nullptr, &no_time);
    ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
  }

 private:
  sigset_t blocked_{};
  sigset_t previous_{};
  bool active_ = false;
};

}  // namespace

output_file::output_file(const fs::path& target) : target_(target) {
  destination found = find_destination(target);
  location_ = std::move(found.location);
  switch (found.type) {
    case destination::kind::descriptor:
      descriptor_ = ::fcntl(found.descriptor, F_DUPFD_CLOEXEC, 0);
      if (descriptor_ < 0) fail(errc::invalid_argument, target, "cannot be written", errno);
      break;
    case destination::kind::special:
      do descriptor_ = ::open(location_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
      while (descriptor_ < 0 && errno == EINTR);
      if (descriptor_ < 0) fail(code_of(errno), target, "cannot be written", errno);
      break;
    case destination::kind::regular:
      descriptor_ = make_temporary(target, location_, temporary_);
      // A file system without permissions refuses this, which does no harm.
      if (found.permissions) static_cast<void>(::fchmod(descriptor_, *found.permissions));
      break;
  }
}

output_file::~output_file() {
  close();
}

void output_file::close() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

void output_file::write(std::span<const std::byte> bytes) {
  // Linux writes at most 2^31 - 4096 bytes at once.
  constexpr std::size_t largest_write = std::size_t{1} << 30;
  const file_size_signal_block block;
  while (!bytes.empty()) {
    const ssize_t written =
        ::write(descriptor_, bytes.data(), std::min(bytes.size(), largest_write));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail(errc::library_failure, target_, "could not be written", errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void output_file::commit() {
  if (!temporary_.exists()) {
    const int closed = ::close(std::exchange(descriptor_, -1));
    if (closed != 0 && errno != EINTR)
      fail(errc::library_failure, target_, "could not be written", errno);
    return;
  }
  if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != ENOTSUP)
    fail(errc::library_failure, target_, "could not be written", errno);
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR)
    fail(errc::library_failure, target_, "could not be written", errno);
  if (const int number = temporary_.rename(location_); number != 0)
    fail(errc::library_failure, target_, "could not be renamed into place", number);
  // Flushes the new name, too. A failure is harmless: the file is complete under either name.
  const fs::path folder = location_.has_parent_path() ? location_.parent_path() : fs::path(".");
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    ::fsync(descriptor);
    ::close(descriptor);
  }
}

void require_writable_folder(const fs::path& target) {
  const destination found = find_destination(target);
  switch (found.type) {
    case destination::kind::descriptor:
      if (const int flags = ::fcntl(found.descriptor, F_GETFL);
          flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
        fail(errc::invalid_argument, target, "cannot be written", EBADF);
      break;
    case destination::kind::special:
      break;
    case destination::kind::regular: {
      // Only an attempt tells about read-only and virtual file systems.
      partial_file temporary;
      ::close(make_temporary(target, found.location, temporary));
      break;
    }
  }
}

std::optional<file_identity> identity_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode)) return std::nullopt;
    return file_identity{status.st_dev, status.st_ino};
  }
  try {
    const destination found = find_destination(path);
    const fs::path folder = found.location.parent_path();
    if (found.type != destination::kind::regular ||
        ::stat(folder.empty() ? "." : folder.c_str(), &status) != 0)
      return std::nullopt;
    return file_identity{status.st_dev, status.st_ino, found.location.filename()};
  } catch (const error&) {
    return std::nullopt;
  }
}

}  // namespace sluice::io
