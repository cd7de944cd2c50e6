// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>

namespace sluice::service::test {

/// A reply as it came.
struct raw_reply {
  unsigned status = 0;
  std::string head{};
  std::string body{};

  [[nodiscard]] std::optional<std::string> field(const std::string& name) const {
    const auto start = head.find("\r\n" + name + ": ");
    if (start == std::string::npos) return std::nullopt;
    const auto value = start + name.size() + 4;
    return head.substr(value, head.find("\r\n", value) - value);
  }
};

/// Takes the next reply off `received`, to which `receive_some` appends; nothing if that fails.
template <class ReceiveSome>
std::optional<raw_reply> receive_reply(std::string& received, bool has_body,
                                       ReceiveSome receive_some) {
  raw_reply reply;
  std::size_t end = 0;
  while ((end = received.find("\r\n\r\n")) == std::string::npos) {
    if (!receive_some()) return std::nullopt;
  }
  reply.head = received.substr(0, end + 2);
  received.erase(0, end + 4);
  reply.status = static_cast<unsigned>(std::atoi(reply.head.c_str() + sizeof "HTTP/1.1"));
  const auto length = has_body ? reply.field("Content-Length") : std::nullopt;
  const std::size_t bytes = length ? std::strtoull(length->c_str(), nullptr, 10) : 0;
  while (received.size() < bytes) {
    if (!receive_some()) return std::nullopt;
  }
  reply.body = received.substr(0, bytes);
  received.erase(0, bytes);
  return reply;
}

/// A client that sends any bytes.
class raw_client {
 public:
  explicit raw_client(std::uint16_t port, int receive_buffer = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    (void)::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (receive_buffer > 0) {
      (void)::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connect(address);
  }
  /// Connects to a Unix socket.
  explicit raw_client(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    connect(address);
  }
  raw_client(const raw_client&) = delete;
  raw_client& operator=(const raw_client&) = delete;
  ~raw_client() { close(); }

  [[nodiscard]] int descriptor() const noexcept { return socket_; }
  /// Sends everything, unless the server has closed the connection.
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  /// The next reply; nothing if the connection ends before it.
  [[nodiscard]] std::optional<raw_reply> receive(bool has_body = true) {
    return receive_reply(received_, has_body, [this] { return receive_some(); });
  }
  /// Whether the server ends the connection without further bytes.
  [[nodiscard]] bool is_at_end() { return received_.empty() && !receive_some(); }
  /// Ends this side of the connection.
  void finish_sending() const { (void)::shutdown(socket_, SHUT_WR); }
  /// Ends the connection with a reset.
  void reset() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    (void)::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

 private:
  template <class Address>
  void connect(const Address& address) {
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      const int error = errno;
      close();
      throw std::system_error(error, std::generic_category(), "connect");
    }
  }
  bool receive_some() {
    std::array<char, 65536> bytes{};
    const ssize_t count = ::recv(socket_, bytes.data(), bytes.size(), 0);
    if (count <= 0) return false;
    received_.append(bytes.data(), static_cast<std::size_t>(count));
    return true;
  }

  int socket_;
  std::string received_{};
};

}  // namespace sluice::service::test
