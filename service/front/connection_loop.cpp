// SPDX-License-Identifier: Apache-2.0
#include "service/front/connection_loop.hpp"

#include "service/base/spin_wait.hpp"
#include "service/front/http_connection.hpp"

#include <boost/asio/post.hpp>

#include <chrono>
#include <new>
#include <utility>

namespace sluice::service {
namespace {

constexpr std::chrono::milliseconds tick_period{100};

}  // namespace

connection_loop::connection_loop(std::function<void()> on_closed)
    : on_closed_(std::move(on_closed)) {}

void connection_loop::start() {
  tick();
  thread_ = std::thread([this] {
    while (!io_.stopped()) {
      try {
        run();
      } catch (const std::bad_alloc&) {
        continue;  // the connection whose handler threw has closed or meets a deadline
      }
    }
  });
}

void connection_loop::run() {
  spin_wait wait;
  while (!io_.stopped()) {
    if (io_.poll() > 0) continue;
    if (wait.spin([this] { return io_.poll() > 0; })) continue;
    io_.run_one();
    wait.end_sleep();
  }
}

void connection_loop::drain() {
  boost::asio::post(io_, [this] {
    is_draining_ = true;
    for_each([](http_connection& connection) { connection.drain(); });
  });
}

void connection_loop::finish() {
  if (!thread_.joinable()) return;
  boost::asio::post(io_, [this] {
    is_draining_ = true;
    is_finishing_ = true;
    timer_.cancel();
    for_each([](http_connection& connection) { connection.abort(); });
    work_.reset();
  });
  thread_.join();
}

void connection_loop::insert(http_connection& connection) {
  connections_.insert(&connection);
}

void connection_loop::erase(http_connection& connection) {
  if (connections_.erase(&connection) > 0) on_closed_();
}

/// Calls the function with each connection, which may erase itself.
template <class Function>
void connection_loop::for_each(Function function) {
  for (auto next = connections_.begin(); next != connections_.end();) {
    const auto connection = (*next++)->shared_from_this();
    function(*connection);
  }
}

void connection_loop::tick() {
  timer_.expires_after(tick_period);
  timer_.async_wait([this](const boost::system::error_code&) {
    if (is_finishing_) return;
    const auto now = std::chrono::steady_clock::now();
    for_each([now](http_connection& connection) { connection.check_deadlines(now); });
    tick();
  });
}

}  // namespace sluice::service
