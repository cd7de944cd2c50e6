// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/base/file_descriptor.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>

namespace sluice::service {

/// Two connected sockets for `control_socket`.
/// @throws std::system_error if the kernel refuses
[[nodiscard]] std::pair<file_descriptor, file_descriptor> make_control_sockets();

/// Exchanges JSON messages between the front and a worker, such as to load a model.
///
/// A message is one or several packets of a socket of the type SOCK_SEQPACKET, because the kernel
/// limits packets. The first byte of a packet says whether it is the last one of its message. No
/// function blocks. Not thread-safe.
class control_socket {
 public:
  static constexpr std::size_t max_message_bytes = std::size_t{1} << 20;
  /// Messages may wait for the peer up to this size.
  static constexpr std::size_t max_queued_bytes = 8 * max_message_bytes;
  /// How deep objects and arrays of received messages may contain each other.
  static constexpr int max_depth = 64;

  explicit control_socket(file_descriptor socket) noexcept : socket_(std::move(socket)) {}

  /// The socket, to poll: readable if `receive` may return something, writable if `flush` may send.
  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }

  /// Sends a message, or queues what the kernel does not take now. False if too much is queued
  /// already: the peer does not read.
  /// @throws std::length_error if the message is longer than `max_message_bytes`
  /// @throws std::system_error if the kernel refuses
  [[nodiscard]] bool send(const nlohmann::json& message);
  /// Sends what is queued; false if some of it remains.
  /// @throws std::system_error if the kernel refuses
  [[nodiscard]] bool flush();

  /// The next message, if all of it is there.
  /// @throws std::runtime_error if the peer has sent no such message, after which the socket is of
  /// no use
  /// @throws std::system_error if the kernel refuses
  [[nodiscard]] std::optional<nlohmann::json> receive();

  /// Whether the peer has closed its socket. Its last messages have been received.
  [[nodiscard]] bool is_closed() const noexcept { return is_closed_; }

 private:
  file_descriptor socket_;
  std::deque<std::string> queue_{};  ///< packets
  std::size_t queued_bytes_ = 0;
  std::string received_{};  ///< the packets so far of a message
  bool is_closed_ = false;
};

}  // namespace sluice::service
