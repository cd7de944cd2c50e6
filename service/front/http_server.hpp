// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/http_options.hpp"
#include "service/front/model_backend.hpp"
#include "service/front/request_router.hpp"
#include "service/metrics/http_statistics.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace boost::asio {
class io_context;
}

namespace sluice::service {

/// A server of the Open Inference Protocol, or of other paths, over HTTP/1.1.
///
///     http_server server({.port = 0}, backend);
///     connect("127.0.0.1", server.port());
///     server.stop(std::chrono::seconds(30));
///
/// It may listen on a Unix socket too, or only there. On a loopback address it refuses requests for
/// foreign hosts and requests of browsers' pages, see `host_policy`. The members may be called by
/// any thread.
class http_server {
 public:
  /// Listens and starts the threads.
  /// @param backend  outlives the server
  /// @throws std::system_error if the address cannot be bound
  http_server(http_options options, model_backend& backend);
  /// Likewise, with other paths than those of the protocol.
  /// @param router  outlives the server
  http_server(http_options options, model_backend& backend, const request_router& router);
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;
  /// `stop` without a delay.
  ~http_server();

  /// The port that is bound; 0 if there is only a Unix socket.
  [[nodiscard]] std::uint16_t port() const noexcept;
  /// What the server has done.
  [[nodiscard]] http_counts counts() const;
  /// Connections that are open.
  [[nodiscard]] std::size_t connections() const;
  /// Bytes of JSON text that are being read or parsed.
  [[nodiscard]] std::uint64_t json_bytes() const noexcept;

  /// The event loops, one a thread. They run until `stop` ends.
  [[nodiscard]] std::vector<boost::asio::io_context*> loops();

  /// Stops serving: accepts no connections, closes idle ones, and others after their answer. Those
  /// that are open after `delay` are closed, and their runs cancelled. Afterwards the server calls
  /// nothing of the backend. Later calls do nothing.
  void stop(std::chrono::milliseconds delay);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace sluice::service
