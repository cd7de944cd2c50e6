// SPDX-License-Identifier: Apache-2.0
#include "service/front/connection_origin.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <unistd.h>

namespace sluice::service {
namespace {

constexpr unsigned loopback_network = 127;  // of IPv4, the first byte

[[nodiscard]] bool is_loopback(const sockaddr_in6& address) noexcept {
  const auto& ip = address.sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&ip) ||
         (IN6_IS_ADDR_V4MAPPED(&ip) && ip.s6_addr[12] == loopback_network);
}

}  // namespace

connection_origin origin_of(int socket) noexcept {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  if (storage.ss_family == AF_UNIX) {
    ucred peer{};
    socklen_t length = sizeof peer;
    const bool is_known = ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
                          (peer.uid == ::geteuid() || peer.uid == 0);
    return {.is_private = true,
            .is_unix = true,
            .role = is_known ? access_role::admin : access_role::none};
  }
  if (storage.ss_family == AF_INET) {
    sockaddr_in address{};
    std::memcpy(&address, &storage, sizeof address);
    return {.is_private = ntohl(address.sin_addr.s_addr) >> 24U == loopback_network};
  }
  if (storage.ss_family == AF_INET6) {
    sockaddr_in6 address{};
    std::memcpy(&address, &storage, sizeof address);
    return {.is_private = is_loopback(address)};
  }
  return {};
}

}  // namespace sluice::service
