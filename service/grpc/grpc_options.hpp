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

namespace sluice::service {

/// Limits of what clients of gRPC may send and of what they are sent.
struct grpc_limits {
  std::size_t message_bytes = std::size_t{64} << 20U;    ///< of a request; RESOURCE_EXHAUSTED above
  std::uint64_t reply_bytes = std::uint64_t{64} << 20U;  ///< RESOURCE_EXHAUSTED above
  /// Bytes of all replies that clients have not taken; RESOURCE_EXHAUSTED above.
  std::uint64_t reply_bytes_in_flight = std::uint64_t{256} << 20U;
  /// Memory of connections, calls and messages. gRPC ends calls above.
  std::size_t memory_bytes = std::size_t{512} << 20U;
  int calls = 256;                ///< of a connection; later ones wait in the client
  int metadata_bytes = 16 << 10;  ///< of a call; RESOURCE_EXHAUSTED above
  /// Requests of a stream whose answers are not sent. The stream is not read above.
  std::size_t requests_of_stream = 64;
};

/// How long connections may take.
struct grpc_deadlines {
  std::chrono::milliseconds handshake{10'000};  ///< from the connection to its settings
  std::chrono::milliseconds idle{300'000};      ///< without a call
  /// A connection without traffic is asked for a sign of life after this time, and closed if none
  /// comes within `keepalive_answer`.
  std::chrono::milliseconds keepalive{60'000};
  std::chrono::milliseconds keepalive_answer{20'000};
  std::chrono::milliseconds write{300'000};         ///< until a client has taken a message
  std::chrono::milliseconds between_pings{10'000};  ///< of a client; it is disconnected below
};

/// Options of `grpc_front`.
struct grpc_options {
  std::string address = "127.0.0.1";
  std::uint16_t port = 8001;               ///< 0: any free port
  std::shared_ptr<tls_credentials> tls{};  ///< null: without TLS
  std::shared_ptr<access_policy> access = std::make_shared<access_policy>();
  std::shared_ptr<tenant_registry> tenants = std::make_shared<tenant_registry>();
  /// The shared memory of clients; according to `tenants`.
  std::shared_ptr<region_registry> regions = std::make_shared<region_registry>(tenants);
  grpc_limits limits{};
  grpc_deadlines deadlines{};
};

}  // namespace sluice::service
