// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/service/server_address.hpp"

#include <cstdint>
#include <functional>
#include <memory>

namespace sluice::cli {

/// The sizes of the messages of an echo server, in bytes.
struct echo_sizes {
  std::uint64_t request = 0;     ///< as a whole, with its head
  std::uint64_t reply = 0;       ///< likewise
  std::uint64_t reply_json = 0;  ///< of HTTP
  std::uint64_t reply_data = 0;  ///< of HTTP, after the JSON
};

/// A server on a free port of the loopback address, with one thread, that does no work: the floor
/// of what a service can reach. It reads a request as a whole and answers with as many bytes as the
/// service does.
class echo_server {
 public:
  /// A server without a protocol, which counts bytes.
  [[nodiscard]] static echo_server of_bytes(const echo_sizes& sizes);
  /// A minimal server of Boost.Beast.
  [[nodiscard]] static echo_server of_http(const echo_sizes& sizes);

  echo_server(echo_server&&) noexcept;
  echo_server& operator=(echo_server&&) noexcept;
  /// Closes all connections.
  ~echo_server();

  [[nodiscard]] server_address address() const;

 private:
  class loop;
  explicit echo_server(std::unique_ptr<loop> started);

  std::unique_ptr<loop> loop_;
};

}  // namespace sluice::cli
