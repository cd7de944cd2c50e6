// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/service/load_counts.hpp"
#include "tools/sluice/bench/service/reply_reader.hpp"
#include "tools/sluice/bench/service/server_address.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace sluice::cli {

/// A client of a closed loop: it sends the same bytes after each reply.
struct load_client {
  const std::string* request;  ///< outlives the load
  std::unique_ptr<reply_reader> replies;
};

/// Clients with a connection each, on threads that wait for all of their connections at once. They
/// use system calls directly: a client must cost little beside the server that it measures, and
/// Asio calls `recv` in vain before each wait.
struct load_loop {
  server_address server;
  std::size_t clients = 1;
  std::size_t threads = 1;
  /// Makes the client with this number.
  std::function<load_client(std::size_t)> client;

  /// Connects, sends requests until this time has passed, and waits for the last replies. A client
  /// whose connection fails sends no more.
  /// @throws error `library_failure` if a client cannot connect
  [[nodiscard]] load_counts run(std::chrono::steady_clock::duration time) const;
};

}  // namespace sluice::cli
