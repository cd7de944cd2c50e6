// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/base/wake_event.hpp"
#include "service/front/reply_receiver.hpp"
#include "service/front/worker_link.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <memory>

namespace sluice::service {

/// Has an event loop receive the replies of a worker, so that the worker wakes the thread that
/// answers the clients. While it runs, nobody else waits for the worker's replies.
class reply_watch : public std::enable_shared_from_this<reply_watch> {
 public:
  /// If the worker breaks a rule, the watch sets `worker_link::has_fault`, signals `on_fault` and
  /// does nothing any more.
  /// @param loop  runs until `stop` has returned
  /// @throws std::system_error if there is no descriptor left
  reply_watch(boost::asio::io_context& loop, std::shared_ptr<worker_link> worker,
              reply_receiver& receiver, wake_event& on_fault);

  void start();
  /// Returns when the loop does nothing for this watch any more. Not for the thread of the loop.
  void stop();

 private:
  void look();
  void receive();

  boost::asio::io_context& loop_;
  // The rest is for the thread of the loop.
  boost::asio::posix::stream_descriptor readable_;
  std::shared_ptr<worker_link> worker_;  // null after `stop`
  reply_receiver& receiver_;
  wake_event& on_fault_;
};

}  // namespace sluice::service
