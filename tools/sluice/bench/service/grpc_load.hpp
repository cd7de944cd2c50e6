// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/service/load_counts.hpp"
#include "tools/sluice/bench/service/served_model.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sluice::cli {

/// The clients of a closed loop over gRPC, as `load_loop` has them for HTTP: each has a connection
/// of its own and one call in flight.
class grpc_load {
 public:
  /// What one client sends, and the bytes of outputs that the reply must have.
  struct exchange {
    std::string message;
    std::uint64_t data = 0;
  };

  /// @param address    "HOST:PORT"
  /// @param exchanges  the clients take them in turns
  grpc_load(const std::string& address, const std::string& token, std::size_t clients,
            const std::vector<exchange>& exchanges);
  grpc_load(const grpc_load&) = delete;
  grpc_load& operator=(const grpc_load&) = delete;
  ~grpc_load();

  /// Sends requests until this time has passed, and waits for the last replies.
  [[nodiscard]] load_counts run(std::size_t threads, std::chrono::steady_clock::duration time);

 private:
  struct client;
  class queue;

  std::vector<std::unique_ptr<client>> clients_;
};

/// The message ModelInferRequest with these inputs as raw bytes.
[[nodiscard]] std::string grpc_message(const served_model& model,
                                       const std::vector<std::string>& inputs);

}  // namespace sluice::cli
