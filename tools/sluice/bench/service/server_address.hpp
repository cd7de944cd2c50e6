// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace sluice::cli {

/// Where a server listens.
struct server_address {
  std::string text{};  ///< as the user gave it, for errors
  std::string host{};  ///< the value of the field Host of HTTP
  sockaddr_storage address{};
  socklen_t length = 0;
};

/// Reads and resolves "HOST:PORT", "[::1]:8000" or "unix:PATH".
/// @throws error `invalid_argument`, naming the option, if the text is none of them or the host is
/// not known
[[nodiscard]] server_address resolve_server(std::string_view option, const std::string& text);

/// A connection to a server. Waiting calls give up after a minute.
class server_connection {
 public:
  /// @throws error `library_failure`, naming the address
  explicit server_connection(const server_address& address);
  server_connection(server_connection&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)) {}
  server_connection& operator=(server_connection&& other) noexcept {
    std::swap(socket_, other.socket_);
    return *this;
  }
  ~server_connection() { close(); }

  [[nodiscard]] int descriptor() const noexcept { return socket_; }
  void close() noexcept {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }

 private:
  int socket_;
};

}  // namespace sluice::cli
