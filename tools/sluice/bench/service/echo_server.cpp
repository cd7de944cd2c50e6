// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/service/echo_server.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::cli {

namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

/// A connection without a protocol. It lives as long as an operation holds it.
class byte_echo : public std::enable_shared_from_this<byte_echo> {
 public:
  byte_echo(tcp::socket socket, const echo_sizes& sizes)
      : socket_(std::move(socket)), request_(sizes.request), reply_(sizes.reply) {}

  void start() {
    asio::async_read(socket_, asio::buffer(request_),
                     [self = shared_from_this()](error_code code, std::size_t) {
                       if (!code) self->answer();
                     });
  }

 private:
  void answer() {
    asio::async_write(socket_, asio::buffer(reply_),
                      [self = shared_from_this()](error_code code, std::size_t) {
                        if (!code) self->start();
                      });
  }

  tcp::socket socket_;
  std::vector<std::byte> request_;
  std::vector<std::byte> reply_;
};

/// A connection of HTTP, likewise.
class http_echo : public std::enable_shared_from_this<http_echo> {
 public:
  http_echo(tcp::socket socket, const echo_sizes& sizes) : socket_(std::move(socket)) {
    constexpr std::size_t buffer_bytes = 65536;
    buffer_.reserve(buffer_bytes);
    reply_.set(http::field::content_type, "application/octet-stream");
    reply_.set("Inference-Header-Content-Length", std::to_string(sizes.reply_json));
    reply_.body().resize(sizes.reply_json + sizes.reply_data);
    reply_.prepare_payload();
  }

  void start() {
    request_.emplace();
    request_->body_limit(std::numeric_limits<std::uint64_t>::max());
    http::async_read(socket_, buffer_, *request_,
                     [self = shared_from_this()](error_code code, std::size_t) {
                       if (!code) self->answer();
                     });
  }

 private:
  void answer() {
    http::async_write(socket_, reply_, [self = shared_from_this()](error_code code, std::size_t) {
      if (!code) self->start();
    });
  }

  tcp::socket socket_;
  boost::beast::flat_buffer buffer_{};
  std::optional<http::request_parser<http::string_body>> request_{};
  http::response<http::string_body> reply_{};
};

}  // namespace

class echo_server::loop {
 public:
  using accepted = std::function<void(tcp::socket)>;

  explicit loop(accepted accept) : accept_(std::move(accept)) {
    accept_next();
    thread_ = std::thread([this] { context_.run(); });
  }
  loop(const loop&) = delete;
  loop& operator=(const loop&) = delete;
  ~loop() {
    context_.stop();
    thread_.join();
  }
  [[nodiscard]] std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

 private:
  void accept_next() {
    acceptor_.async_accept([this](error_code code, tcp::socket socket) {
      if (!code) {
        socket.set_option(tcp::no_delay(true), code);
        accept_(std::move(socket));
      }
      accept_next();
    });
  }

  accepted accept_;
  asio::io_context context_{1};
  tcp::acceptor acceptor_{context_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  std::thread thread_{};
};

echo_server::echo_server(std::unique_ptr<loop> started) : loop_(std::move(started)) {}
echo_server::echo_server(echo_server&&) noexcept = default;
echo_server& echo_server::operator=(echo_server&&) noexcept = default;
echo_server::~echo_server() = default;

echo_server echo_server::of_bytes(const echo_sizes& sizes) {
  return echo_server(std::make_unique<loop>([sizes](tcp::socket socket) {
    std::make_shared<byte_echo>(std::move(socket), sizes)->start();
  }));
}

echo_server echo_server::of_http(const echo_sizes& sizes) {
  return echo_server(std::make_unique<loop>([sizes](tcp::socket socket) {
    std::make_shared<http_echo>(std::move(socket), sizes)->start();
  }));
}

server_address echo_server::address() const {
  return resolve_server("echo", "127.0.0.1:" + std::to_string(loop_->port()));
}

}  // namespace sluice::cli
