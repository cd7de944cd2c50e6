// SPDX-License-Identifier: Apache-2.0
#include "service/front/unix_listener.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace sluice::service {
namespace {

[[noreturn]] void refuse(const std::string& path, int number) {
  throw std::system_error(number, std::generic_category(), "unix:" + path);
}

[[nodiscard]] sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) refuse(path, ENAMETOOLONG);
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

[[nodiscard]] file_descriptor make_socket(const std::string& path) {
  file_descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) refuse(path, errno);
  return socket;
}

/// Removes the file of a socket whose server has ended.
void remove_stale(const std::string& path, const sockaddr_un& address) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return;
  if (!S_ISSOCK(status.st_mode)) refuse(path, EEXIST);
  const auto probe = make_socket(path);
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
      errno != ECONNREFUSED) {
    refuse(path, EADDRINUSE);
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) refuse(path, errno);
}

}  // namespace

unix_listener::unix_listener(std::string path) : path_(std::move(path)) {
  const auto address = address_of(path_);
  remove_stale(path_, address);
  socket_ = make_socket(path_);
  // The file gets the mode of the socket, so that it has it from the beginning.
  if (::fchmod(socket_.get(), S_IRUSR | S_IWUSR) != 0) refuse(path_, errno);
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    refuse(path_, errno);
  }
  struct stat status {};
  if (::lstat(path_.c_str(), &status) != 0 || ::listen(socket_.get(), SOMAXCONN) != 0) {
    const int number = errno;
    (void)::unlink(path_.c_str());
    refuse(path_, number);
  }
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

unix_listener::~unix_listener() {
  struct stat status {};
  if (::lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_) {
    (void)::unlink(path_.c_str());
  }
}

}  // namespace sluice::service
