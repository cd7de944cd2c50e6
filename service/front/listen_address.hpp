// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace sluice::service {

/// Where a protocol of the service listens: an address and a port, or a Unix socket.
struct listen_address {
  std::string address{};  ///< of IPv4 or IPv6; empty for a Unix socket
  std::uint16_t port = 0;
  std::string unix_path{};
};

/// Reads "127.0.0.1:8000", "[::1]:8000", "localhost:8000" or "unix:/run/sluiced.sock".
/// @param option  names the argument in errors
/// @throws std::invalid_argument if it is none of them
[[nodiscard]] listen_address parse_listen_address(const std::string& option,
                                                  const std::string& text);

/// Whether an address of IPv4 or IPv6 is reached from this machine alone. False for other texts.
[[nodiscard]] bool is_loopback_address(const std::string& address) noexcept;

/// How the traffic of a protocol is protected.
struct protection {
  bool has_tls = false;
  bool is_insecure = false;  ///< whether the option --insecure is given
};

/// Checks that a protocol may listen here: other machines reach it only over TLS, unless the user
/// insists.
/// @param option  names the argument in errors
/// @throws std::invalid_argument if it may not
void check_listen_address(const std::string& option, const listen_address& address,
                          const protection& protection);

}  // namespace sluice::service
