// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/access_policy.hpp"
#include "service/front/region_registry.hpp"
#include "service/front/tenant_registry.hpp"
#include "service/front/tls_credentials.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sluice::service {

/// Limits of what clients may send. Requests above one of them are refused.
struct http_limits {
  std::size_t head_bytes = std::size_t{16} << 10;  ///< request line and fields; 431 above
  std::size_t fields = 100;                        ///< 431 above
  std::uint64_t body_bytes = std::uint64_t{64}
                             << 20;  ///< as sent and after decompression; 413 above
  /// JSON text of all connections that is being read or parsed; 429 above. The memory of tensors is
  /// limited by the backend.
  std::uint64_t json_bytes_in_flight = std::uint64_t{256} << 20;
  /// Text of all replies that clients have not taken, of those with more than 64 KiB; 429 above.
  std::uint64_t reply_text_bytes = std::uint64_t{256} << 20;
  std::size_t connections = 1024;  ///< of the server; 503 above
};

/// How long clients may take. Checked ten times a second.
struct http_deadlines {
  std::chrono::milliseconds idle{75'000};  ///< between an answer and the next request
  std::chrono::milliseconds head{
      10'000};  ///< from the first byte of a head to its last; of a TLS handshake
  std::chrono::milliseconds body{300'000};   ///< from the head to the end of the body
  std::chrono::milliseconds write{300'000};  ///< for a client to take an answer
  /// How long a connection that is closed with part of a request unread still discards what comes,
  /// so that the client can read the answer.
  std::chrono::milliseconds linger{2'000};
  /// Bytes a second that bodies and answers must make on average after `grace`; 0: any rate.
  std::uint64_t least_rate = 4096;
  std::chrono::milliseconds grace{5'000};
};

/// Options of `http_server`.
struct http_options {
  std::string address = "127.0.0.1";       ///< empty: the Unix socket alone
  std::uint16_t port = 8000;               ///< 0: any free port
  std::string unix_path{};                 ///< of a Unix socket to listen on as well; empty: none
  std::shared_ptr<tls_credentials> tls{};  ///< for the address; null: without TLS
  std::shared_ptr<access_policy> access = std::make_shared<access_policy>();
  std::shared_ptr<tenant_registry> tenants = std::make_shared<tenant_registry>();
  /// The shared memory of clients; according to `tenants`.
  std::shared_ptr<region_registry> regions = std::make_shared<region_registry>(tenants);
  unsigned threads = 1;  ///< that read and write, each with its own connections
  /// Threads that parse and write JSON of more than 64 KiB, and copy from and to shared memory.
  unsigned json_threads = 1;
  /// Names that a `Host` field may have besides localhost, 127.0.0.1, ::1 and `address`. They
  /// matter to a server on a loopback address only: others accept any name.
  std::vector<std::string> hosts{};
  http_limits limits{};
  http_deadlines deadlines{};
};

}  // namespace sluice::service
