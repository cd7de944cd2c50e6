// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <thread>
#include <unordered_set>

namespace sluice::service {

class http_connection;

/// A thread that reads and writes for its connections, and watches over their deadlines.
class connection_loop {
 public:
  /// `on_closed` is called on the thread after each `erase`.
  explicit connection_loop(std::function<void()> on_closed);
  connection_loop(const connection_loop&) = delete;
  connection_loop& operator=(const connection_loop&) = delete;
  /// `finish`.
  ~connection_loop() { finish(); }

  [[nodiscard]] boost::asio::io_context& io() noexcept { return io_; }
  void start();
  /// Has connections close, as soon as they have answered what they have read.
  void drain();
  /// Closes all connections and ends the thread. No connection may be added any more.
  void finish();

  // Only for the thread of the loop.
  void insert(http_connection& connection);
  void erase(http_connection& connection);
  [[nodiscard]] bool is_draining() const noexcept { return is_draining_; }

 private:
  template <class Function>
  void for_each(Function function);
  void tick();
  /// Runs handlers until the loop is finished.
  void run();

  std::function<void()> on_closed_;
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      io_.get_executor()};
  boost::asio::steady_timer timer_{io_};
  std::unordered_set<http_connection*> connections_{};
  bool is_draining_ = false;
  bool is_finishing_ = false;
  std::thread thread_{};
};

}  // namespace sluice::service
