// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/model_backend.hpp"
#include "service/grpc/grpc_options.hpp"

#include <chrono>
#include <cstdint>
#include <memory>

namespace sluice::service {

/// A server of the Open Inference Protocol over gRPC.
///
///     grpc_front server({.port = 0}, backend);
///     connect("127.0.0.1", server.port());
///     server.stop(std::chrono::seconds(30));
///
/// The members may be called by any thread. `grpc_server` is a type of gRPC's C library.
class grpc_front {
 public:
  /// Listens and starts the threads.
  /// @param backend  outlives the server
  /// @throws std::runtime_error if the address cannot be bound or gRPC refuses the certificate
  grpc_front(grpc_options options, model_backend& backend);
  grpc_front(const grpc_front&) = delete;
  grpc_front& operator=(const grpc_front&) = delete;
  /// `stop` without a delay.
  ~grpc_front();

  /// The port that is bound.
  [[nodiscard]] std::uint16_t port() const noexcept;
  /// Tells clients that watch the health of the server whether the backend is ready. Happens every
  /// second without this.
  void check_health();

  /// Stops serving: accepts no connections and no calls, and ends streams once they have answered
  /// what they have received. Calls that are open after `delay` are cancelled, and their runs, too.
  /// Afterwards the server calls nothing of the backend. Later calls do nothing.
  void stop(std::chrono::milliseconds delay);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace sluice::service
