// SPDX-License-Identifier: Apache-2.0
#include "service/front/control_socket.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace sluice::service {
namespace {

constexpr std::size_t packet_bytes = 65536;  ///< the most that is sent, with the first byte
constexpr char last_packet = 0;
constexpr char more_packets = 1;

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

[[nodiscard]] nlohmann::json parse(const std::string& text) {
  const auto check_depth = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > control_socket::max_depth) {
      throw std::runtime_error("a control message is nested too deeply");
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, check_depth);
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(std::string("a control message is no JSON: ") + error.what());
  }
}

}  // namespace

std::pair<file_descriptor, file_descriptor> make_control_sockets() {
  std::array<int, 2> sockets{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets.data()) !=
      0) {
    fail("socketpair");
  }
  return {file_descriptor(sockets[0]), file_descriptor(sockets[1])};
}

bool control_socket::send(const nlohmann::json& message) {
  constexpr auto replace = nlohmann::json::error_handler_t::replace;  // text that is not UTF-8
  const auto text = message.dump(-1, ' ', false, replace);
  if (text.size() > max_message_bytes) throw std::length_error("a control message is too long");
  if (queued_bytes_ > max_queued_bytes - text.size()) return false;
  constexpr auto piece_bytes = packet_bytes - 1;
  for (std::size_t begin = 0; begin < text.size(); begin += piece_bytes) {
    const bool is_last = text.size() - begin <= piece_bytes;
    std::string packet(1, is_last ? last_packet : more_packets);
    packet.append(text, begin, piece_bytes);
    queued_bytes_ += packet.size();
    queue_.push_back(std::move(packet));
  }
  (void)flush();
  return true;
}

bool control_socket::flush() {
  while (!queue_.empty()) {
    const auto& packet = queue_.front();
    // MSG_DONTWAIT, because the peer could make the socket block.
    if (::send(socket_.get(), packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
      if (errno == EINTR || errno == ECONNRESET) continue;
      if (errno == EAGAIN) return false;
      if (errno != EPIPE) fail("sending a control message");
      // `receive` reports the end after the last messages of the peer.
      queue_.clear();
      queued_bytes_ = 0;
      return true;
    }
    queued_bytes_ -= packet.size();
    queue_.pop_front();
  }
  return true;
}

std::optional<nlohmann::json> control_socket::receive() {
  std::array<char, packet_bytes> packet;
  while (!is_closed_) {
    // With MSG_TRUNC the result is the length of the packet, also if that is longer.
    const auto size = ::recv(socket_.get(), packet.data(), packet.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (size < 0) {
      // The kernel reports once that the peer has closed its socket without reading all.
      if (errno == EINTR || errno == ECONNRESET) continue;
      if (errno == EAGAIN) return std::nullopt;
      fail("receiving a control message");
    }
    if (size == 0) {
      is_closed_ = true;
      break;
    }
    const auto bytes = static_cast<std::size_t>(size);
    if (bytes > packet.size() || received_.size() + bytes - 1 > max_message_bytes) {
      throw std::runtime_error("a control message is too long");
    }
    received_.append(packet.data() + 1, bytes - 1);
    if (packet[0] == last_packet) return parse(std::exchange(received_, {}));
    if (packet[0] != more_packets) throw std::runtime_error("a malformed control packet");
  }
  return std::nullopt;
}

}  // namespace sluice::service
