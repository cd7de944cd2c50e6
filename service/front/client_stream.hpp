// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>

#include <memory>
#include <optional>
#include <utility>

namespace sluice::service {

/// The bytes from and to a client, with or without TLS. An asynchronous stream of Asio, for one
/// thread. Each operation has a branch, so that a stream without TLS costs no more than its socket.
class client_stream {
 public:
  using socket = boost::asio::generic::stream_protocol::socket;
  using executor_type = socket::executor_type;

  /// @param context  null: without TLS
  client_stream(socket client, std::shared_ptr<boost::asio::ssl::context> context)
      : socket_(std::move(client)), context_(std::move(context)) {
    if (context_) tls_.emplace(socket_, *context_);
  }

  [[nodiscard]] bool has_tls() const noexcept { return tls_.has_value(); }
  [[nodiscard]] executor_type get_executor() noexcept { return socket_.get_executor(); }

  /// Only with TLS, before anything is read or written.
  template <class Handler>
  void async_handshake(Handler&& handler) {
    tls_->async_handshake(boost::asio::ssl::stream_base::server, std::forward<Handler>(handler));
  }
  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (tls_ && !discards_) {
      tls_->async_read_some(buffers, std::forward<Handler>(handler));
    } else {
      socket_.async_read_some(buffers, std::forward<Handler>(handler));
    }
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) {
      tls_->async_write_some(buffers, std::forward<Handler>(handler));
    } else {
      socket_.async_write_some(buffers, std::forward<Handler>(handler));
    }
  }
  /// Tells the client that nothing more follows, and waits until it says the same. Only with TLS.
  template <class Handler>
  void async_shutdown(Handler&& handler) {
    tls_->async_shutdown(std::forward<Handler>(handler));
  }

  /// Aborts what is being read. With TLS, a read may still take bytes that have come.
  void cancel() noexcept {
    boost::system::error_code ignored;
    socket_.cancel(ignored);
  }
  /// Ends this side of the connection. What is read from now on is for no use: with TLS it is not
  /// decrypted.
  void begin_discarding() noexcept {
    discards_ = true;
    boost::system::error_code ignored;
    socket_.shutdown(socket::shutdown_send, ignored);
  }
  void close() noexcept {
    boost::system::error_code ignored;
    socket_.close(ignored);
  }

 private:
  socket socket_;
  std::shared_ptr<boost::asio::ssl::context> context_;
  std::optional<boost::asio::ssl::stream<socket&>> tls_{};
  bool discards_ = false;
};

}  // namespace sluice::service
