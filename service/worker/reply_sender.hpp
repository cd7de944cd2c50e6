// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/arena/worker_channel.hpp"
#include "service/protocol/request_error.hpp"

#include <sluice/operations/host_tensor.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace sluice::service {

/// The answer to a request: outputs, or an error.
struct worker_reply {
  std::uint64_t request = 0;             ///< its number
  std::vector<std::uint32_t> numbers{};  ///< of the outputs of the model
  std::vector<host_tensor> outputs{};    ///< one for each number
  std::optional<request_error> error{};  ///< instead of outputs
  run_statistics statistics{};           ///< of the run with the outputs
  /// Memory of the channel in which the outputs lie, in their order; null: they are copied there.
  std::shared_ptr<reply_region> memory{};
};

/// Sends replies to the front. A reply for which there is no memory waits until the front has
/// returned some. Smaller replies pass it, so that they need not wait for clients that read large
/// ones slowly. Thread-safe.
class reply_sender {
 public:
  explicit reply_sender(worker_channel& channel) noexcept : channel_(channel) {}

  /// Whether a reply with outputs of so many bytes can be sent at all.
  [[nodiscard]] bool can_send(std::size_t bytes) const {
    return channel_.can_hold(std::vector<std::uint64_t>{bytes});
  }
  /// Memory for outputs of these sizes in bytes, before a run has them; null if there is none now.
  /// All of it together is at most half of the memory for outputs, so that runs that take long
  /// delay no other replies. It must not outlive this.
  [[nodiscard]] std::shared_ptr<reply_region> reserve(std::span<const std::uint64_t> sizes);
  /// Sends a reply, or keeps it. Outputs that can never fit, or have no type in the protocol,
  /// become an error.
  void send(worker_reply reply) noexcept;
  /// Sends what waits, as far as there is memory. Called when the front has returned some.
  void send_waiting() noexcept;

 private:
  [[nodiscard]] bool try_send(worker_reply& reply);

  worker_channel& channel_;
  std::mutex mutex_;
  std::atomic<std::uint64_t> reserved_bytes_{0};
  std::vector<worker_reply> waiting_;  // the oldest first
};

}  // namespace sluice::service
