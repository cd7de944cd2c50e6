// SPDX-License-Identifier: Apache-2.0
#include "service/front/http_server.hpp"

#include "service/front/connection_loop.hpp"
#include "service/front/connection_origin.hpp"
#include "service/front/front_context.hpp"
#include "service/front/http_connection.hpp"
#include "service/front/http_reply.hpp"
#include "service/front/inference_router.hpp"
#include "service/front/unix_listener.hpp"

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using stream = asio::generic::stream_protocol;
using acceptor = asio::basic_socket_acceptor<stream>;

// For errors that do not go away by themselves, such as too few file descriptors.
constexpr std::chrono::milliseconds accept_retry{100};

/// A place where clients connect. For the thread of its loop.
struct listener {
  explicit listener(asio::io_context& io) : incoming(io), retry(io) {}

  acceptor incoming;
  asio::steady_timer retry;
  tls_credentials* tls = nullptr;  // null: without TLS
};

[[nodiscard]] host_policy make_host_policy(const http_options& options) {
  if (options.address.empty()) return {};
  const auto address = asio::ip::make_address(options.address);
  if (!address.is_loopback()) return {};
  std::vector<std::string> names = options.hosts;
  names.push_back(options.address);
  return host_policy(std::move(names));
}

}  // namespace

struct http_server::state {
  state(http_options chosen, model_backend& backend, const request_router* router)
      : options(std::move(chosen)),
        hosts(make_host_policy(options)),
        protocol(backend, *options.regions),
        context{.options = options,
                .hosts = hosts,
                .backend = backend,
                .router = router == nullptr ? protocol : *router,
                .statistics = statistics,
                .json = byte_budget(options.limits.json_bytes_in_flight),
                .replies = byte_budget(options.limits.reply_text_bytes),
                .json_threads{std::max(1U, options.json_threads)}} {
    for (unsigned i = 0; i < std::max(1U, options.threads); ++i) {
      loops.emplace_back([this] {
        const std::scoped_lock lock(mutex);
        --connections;
        changed.notify_all();
      });
    }
    if (!options.address.empty()) listen_on_address();
    if (!options.unix_path.empty()) listen_on_unix_socket();
    for (auto& each : listeners) accept(each);
    for (auto& loop : loops) loop.start();
  }

  void listen_on_address() {
    const tcp::endpoint endpoint(asio::ip::make_address(options.address), options.port);
    auto& place = listeners.emplace_back(loops.front().io());
    place.tls = options.tls.get();
    auto& incoming = place.incoming;
    try {
      incoming.open(endpoint.protocol());
      incoming.set_option(acceptor::reuse_address(true));
      incoming.bind(endpoint);
      incoming.listen();
    } catch (const boost::system::system_error& failure) {
      throw std::system_error(failure.code(), "the HTTP server cannot listen on " +
                                                  options.address + ", port " +
                                                  std::to_string(options.port));
    }
    tcp::endpoint bound;
    const auto local = incoming.local_endpoint();
    std::memcpy(bound.data(), local.data(), local.size());
    port = bound.port();
  }

  void listen_on_unix_socket() {
    unix_socket.emplace(options.unix_path);
    auto& incoming = listeners.emplace_back(loops.front().io()).incoming;
    incoming.assign(asio::local::stream_protocol(), unix_socket->release());
  }

  void accept(listener& place) {
    connection_loop& loop = loops[next_loop++ % loops.size()];
    place.incoming.async_accept(
        loop.io(),
        [this, &place, &loop](const boost::system::error_code& failure, stream::socket client) {
          if (!place.incoming.is_open()) return;
          if (failure) return accept_later(place);
          accept(place);
          admit(std::move(client), place, loop);
        });
  }

  void accept_later(listener& place) {
    place.retry.expires_after(accept_retry);
    place.retry.async_wait([this, &place](const boost::system::error_code&) {
      if (place.incoming.is_open()) accept(place);
    });
  }

  void admit(stream::socket client, const listener& place, connection_loop& loop) {
    boost::system::error_code ignored;
    {
      const std::scoped_lock lock(mutex);
      if (connections < options.limits.connections) {
        ++connections;
      } else {
        statistics.count_refused_connection();
        statistics.count_reply(503);
        if (place.tls != nullptr) return;
        // The socket's buffer is empty, so that this does not block.
        client.non_blocking(true, ignored);
        client.write_some(asio::buffer(refusal), ignored);
        return;
      }
    }
    client.set_option(tcp::no_delay(true), ignored);  // a Unix socket does not have it
    try {
      auto origin = origin_of(client.native_handle());
      auto tls = place.tls == nullptr ? nullptr : place.tls->context();
      if (tls) origin.is_private = true;
      auto connection = std::make_shared<http_connection>(
          http_connection::client{
              .socket = std::move(client), .tls = std::move(tls), .origin = origin},
          ++numbers, context, loop);
      asio::post(loop.io(), [connection = std::move(connection)] { connection->start(); });
    } catch (const std::exception&) {
      // Memory is short, also that of OpenSSL.
      const std::scoped_lock lock(mutex);
      --connections;
    }
  }

  void drain() {
    asio::post(loops.front().io(), [this] {
      boost::system::error_code ignored;
      for (auto& each : listeners) {
        each.incoming.close(ignored);
        each.retry.cancel();
      }
      unix_socket.reset();
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
    context.copy_threads.join();
  }

  const http_options options;
  const host_policy hosts;
  const inference_router protocol;
  http_statistics statistics{};
  front_context context;
  std::string refusal = [] {
    const auto reply = make_error_reply(503, "the server has too many connections");
    std::string text;
    write_reply_head(text, reply, connection_option::close);
    return text + reply.text;
  }();

  std::mutex mutex{};
  std::condition_variable changed{};
  std::size_t connections = 0;  // guarded by mutex
  bool is_draining = false;     // guarded by mutex

  std::mutex stopping{};
  bool is_stopped = false;  // guarded by stopping

  std::deque<connection_loop> loops{};
  // Only for the thread of the first loop.
  std::optional<unix_listener> unix_socket{};
  std::deque<listener> listeners{};
  std::size_t next_loop = 0;
  std::uint64_t numbers = 0;

  std::uint16_t port = 0;
};

http_server::http_server(http_options options, model_backend& backend) try
    : state_(std::make_unique<state>(std::move(options), backend, nullptr)) {
} catch (const boost::system::system_error& failure) {
  throw std::system_error(failure.code(), "the HTTP server cannot listen");
}

http_server::http_server(http_options options, model_backend& backend,
                         const request_router& router) try
    : state_(std::make_unique<state>(std::move(options), backend, &router)) {
} catch (const boost::system::system_error& failure) {
  throw std::system_error(failure.code(), "the HTTP server cannot listen");
}

http_server::~http_server() {
  stop(std::chrono::milliseconds(0));
}

std::uint16_t http_server::port() const noexcept {
  return state_->port;
}

http_counts http_server::counts() const {
  auto counts = state_->statistics.counts();
  counts.connections = connections();
  counts.json_bytes = json_bytes();
  counts.refused_json = state_->context.json.refusals();
  counts.refused_tenants = state_->context.options.tenants->refusals();
  counts.refused_replies = state_->context.replies.refusals();
  return counts;
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
