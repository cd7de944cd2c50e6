// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/service/server_address.hpp"

#include "tools/io/displayed.hpp"
#include "tools/sluice/bench/service/load_counts.hpp"

#include <sluice/runtime/error.hpp>

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <system_error>

namespace sluice::cli {

namespace {

[[noreturn]] void refuse_address(std::string_view option, const std::string& text,
                                 std::string_view why) {
  throw error(errc::invalid_argument, fmt::format("{}: {}: {}", option, io::displayed(text), why));
}

server_address unix_address(std::string_view option, const std::string& text) {
  constexpr std::string_view prefix = "unix:";
  const auto path = text.substr(prefix.size());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    refuse_address(option, text,
                   fmt::format("a path of 1 to {} bytes", sizeof address.sun_path - 1));
  path.copy(address.sun_path, path.size());
  server_address server{.text = text, .host = "localhost", .length = sizeof address};
  std::memcpy(&server.address, &address, sizeof address);
  return server;
}

}  // namespace

server_address resolve_server(std::string_view option, const std::string& text) {
  if (text.starts_with("unix:")) return unix_address(option, text);
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size())
    refuse_address(option, text, "not HOST:PORT or unix:PATH");
  auto host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host.c_str(), text.c_str() + colon + 1, &hints, &found);
  if (status != 0) refuse_address(option, text, ::gai_strerror(status));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  server_address server{.text = text, .host = text, .length = found->ai_addrlen};
  std::memcpy(&server.address, found->ai_addr, found->ai_addrlen);
  return server;
}

server_connection::server_connection(const server_address& address)
    : socket_(::socket(address.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const timeval time{.tv_sec = reply_timeout.count(), .tv_usec = 0};
  (void)::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  (void)::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
  const int on = 1;
  // Fails on a Unix socket, which has no such delay.
  (void)::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const auto* const place = reinterpret_cast<const sockaddr*>(&address.address);
  if (socket_ >= 0 && ::connect(socket_, place, address.length) == 0) return;
  const int number = errno;
  close();
  throw error(errc::library_failure, fmt::format("{}: {}", io::displayed(address.text),
                                                 std::generic_category().message(number)));
}

}  // namespace sluice::cli
