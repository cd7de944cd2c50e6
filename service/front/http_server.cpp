// SPDX-License-Identifier: Apache-2.0
#include "service/front/http_server.hpp"

#include "service/front/connection_loop.hpp"
#include "service/front/front_context.hpp"
#include "service/front/http_connection.hpp"
#include "service/front/http_reply.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;

// For errors that do not go away by themselves, such as too few file descriptors.
constexpr std::chrono::milliseconds accept_retry{100};

[[nodiscard]] host_policy make_host_policy(const http_options& options) {
  const auto address = asio::ip::make_address(options.address);
  if (!address.is_loopback()) return {};
  std::vector<std::string> names = options.hosts;
  names.push_back(options.address);
  return host_policy(std::move(names));
}

}  // namespace

struct http_server::state {
  state(http_options chosen, model_backend& backend)
      : options(std::move(chosen)),
        hosts(make_host_policy(options)),
        context{.options = options,
                .hosts = hosts,
                .backend = backend,
                .json = byte_budget(options.limits.json_bytes_in_flight),
                .json_threads{std::max(1U, options.json_threads)}} {
    for (unsigned i = 0; i < std::max(1U, options.threads); ++i) {
      loops.emplace_back([this] {
        const std::scoped_lock lock(mutex);
        --connections;
        changed.notify_all();
      });
    }
    acceptor.emplace(loops.front().io());
    const tcp::endpoint endpoint(asio::ip::make_address(options.address), options.port);
    acceptor->open(endpoint.protocol());
    acceptor->set_option(tcp::acceptor::reuse_address(true));
    acceptor->bind(endpoint);
    acceptor->listen();
    port = acceptor->local_endpoint().port();
    retry.emplace(loops.front().io());
    accept();
    for (auto& loop : loops) loop.start();
  }

  void accept() {
    connection_loop& loop = loops[next_loop++ % loops.size()];
    acceptor->async_accept(
        loop.io(), [this, &loop](const boost::system::error_code& failure, tcp::socket client) {
          if (!acceptor->is_open()) return;
          if (failure) return accept_later();
          accept();
          admit(std::move(client), loop);
        });
  }

  void accept_later() {
    retry->expires_after(accept_retry);
    retry->async_wait([this](const boost::system::error_code&) {
      if (acceptor->is_open()) accept();
    });
  }

  void admit(tcp::socket client, connection_loop& loop) {
    boost::system::error_code ignored;
    {
      const std::scoped_lock lock(mutex);
      if (connections < options.limits.connections) {
        ++connections;
      } else {
        // The socket's buffer is empty, so that this does not block.
        client.non_blocking(true, ignored);
        client.write_some(asio::buffer(refusal), ignored);
        return;
      }
    }
    client.set_option(tcp::no_delay(true), ignored);
    try {
      auto connection =
          std::make_shared<http_connection>(std::move(client), ++numbers, context, loop);
      asio::post(loop.io(), [connection = std::move(connection)] { connection->start(); });
    } catch (const std::bad_alloc&) {
      const std::scoped_lock lock(mutex);
      --connections;
    }
  }

  void drain() {
    asio::post(loops.front().io(), [this] {
      boost::system::error_code ignored;
      acceptor->close(ignored);
      retry->cancel();
      for (auto& loop : loops) loop.drain();
      const std::scoped_lock lock(mutex);
      is_draining = true;
      changed.notify_all();
    });
  }

  void stop(std::chrono::milliseconds delay) {
    const std::scoped_lock once(stopping);
    if (std::exchange(is_stopped, true)) return;
    drain();
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return is_draining; });
      changed.wait_for(lock, delay, [this] { return connections == 0; });
    }
    for (auto& loop : loops) loop.finish();
    context.json_threads.join();
  }

  const http_options options;
  const host_policy hosts;
  front_context context;
  std::string refusal = [] {
    const auto reply = make_error_reply(503, "the server has too many connections");
    std::string text;
    write_reply_head(text, reply, connection_option::close);
    return text + reply.json;
  }();

  std::mutex mutex{};
  std::condition_variable changed{};
  std::size_t connections = 0;  // guarded by mutex
  bool is_draining = false;     // guarded by mutex

  std::mutex stopping{};
  bool is_stopped = false;  // guarded by stopping

  std::deque<connection_loop> loops{};
  // Only for the thread of the first loop.
  std::optional<tcp::acceptor> acceptor{};
  std::optional<asio::steady_timer> retry{};
  std::size_t next_loop = 0;
  std::uint64_t numbers = 0;

  std::uint16_t port = 0;
};

http_server::http_server(http_options options, model_backend& backend) try
    : state_(std::make_unique<state>(std::move(options), backend)) {
} catch (const boost::system::system_error& failure) {
  throw std::system_error(failure.code(), "the HTTP server cannot listen");
}

http_server::~http_server() {
  stop(std::chrono::milliseconds(0));
}

std::uint16_t http_server::port() const noexcept {
  return state_->port;
}

std::size_t http_server::connections() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->connections;
}

std::uint64_t http_server::json_bytes() const noexcept {
  return state_->context.json.used();
}

std::vector<asio::io_context*> http_server::loops() {
  std::vector<asio::io_context*> loops;
  for (auto& loop : state_->loops) loops.push_back(&loop.io());
  return loops;
}

void http_server::stop(std::chrono::milliseconds delay) {
  state_->stop(delay);
}

}  // namespace sluice::service
