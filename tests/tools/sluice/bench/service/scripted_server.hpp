// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace sluice::test {

/// A server of HTTP on a loopback port that answers as a test says, with a thread for each
/// connection.
class scripted_server {
 public:
  /// A request: its line with its fields, and its body.
  struct request {
    std::string head{};
    std::string body{};
  };
  /// The bytes of the reply; nothing: the connection is closed.
  using script = std::function<std::optional<std::string>(const request&)>;

  explicit scripted_server(script act)
      : act_(std::move(act)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto length = static_cast<socklen_t>(sizeof address);
    auto* const place = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_, place, length) != 0 || ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, place, &length) != 0) {
      throw std::runtime_error("no socket for a server");
    }
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept(); });
  }
  scripted_server(const scripted_server&) = delete;
  scripted_server& operator=(const scripted_server&) = delete;
  /// The clients must have closed their connections.
  ~scripted_server() {
    (void)::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    ::close(listener_);
    for (auto& thread : threads_) thread.join();
  }

  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  void accept() {
    for (;;) {
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      threads_.emplace_back([this, connection] {
        serve(connection);
        ::close(connection);
      });
    }
  }

  void serve(int connection) {
    std::string received;
    while (const auto next = receive(connection, received)) {
      const auto reply = [&] {
        const std::scoped_lock lock(mutex_);
        return act_(*next);
      }();
      if (!reply) return;
      for (std::size_t sent = 0; sent < reply->size();) {
        const auto count =
            ::send(connection, reply->data() + sent, reply->size() - sent, MSG_NOSIGNAL);
        if (count <= 0) return;
        sent += static_cast<std::size_t>(count);
      }
    }
  }

  static std::optional<request> receive(int connection, std::string& received) {
    std::array<char, 65536> bytes{};
    for (;;) {
      const auto end = received.find("\r\n\r\n");
      if (end != std::string::npos) {
        request next{.head = received.substr(0, end + 2)};
        const auto field = next.head.find("\r\nContent-Length: ");
        const std::size_t length = field == std::string::npos
                                       ? 0
                                       : std::strtoull(next.head.c_str() + field + 18, nullptr, 10);
        if (received.size() >= end + 4 + length) {
          next.body = received.substr(end + 4, length);
          received.erase(0, end + 4 + length);
          return next;
        }
      }
      const auto count = ::recv(connection, bytes.data(), bytes.size(), 0);
      if (count <= 0) return std::nullopt;
      received.append(bytes.data(), static_cast<std::size_t>(count));
    }
  }

  std::mutex mutex_{};
  script act_;
  int listener_;
  std::uint16_t port_ = 0;
  std::thread acceptor_{};
  std::vector<std::thread> threads_{};  // only for the acceptor, until it has ended
};

/// A reply of HTTP; `json` bytes of the body are JSON, nothing: all.
inline std::string http_reply_text(unsigned status, const std::string& body,
                                   std::optional<std::size_t> json = {}) {
  return "HTTP/1.1 " + std::to_string(status) + " Reason\r\n" +
         (json ? "inference-header-content-length: " + std::to_string(*json) + "\r\n" : "") +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace sluice::test
