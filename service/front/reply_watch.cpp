// SPDX-License-Identifier: Apache-2.0
#include "service/front/reply_watch.hpp"

#include <boost/asio/post.hpp>

#include <cerrno>
#include <exception>
#include <fcntl.h>
#include <future>
#include <system_error>
#include <utility>

namespace sluice::service {
namespace {

/// The watch closes its descriptor, while the channel keeps its own.
[[nodiscard]] int duplicate(int descriptor) {
  const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) throw std::system_error(errno, std::generic_category(), "fcntl");
  return copy;
}

}  // namespace

reply_watch::reply_watch(boost::asio::io_context& loop, std::shared_ptr<worker_link> worker,
                         reply_receiver& receiver, wake_event& on_fault)
    : loop_(loop),
      readable_(loop, duplicate(worker->channel.front_wake_descriptor())),
      worker_(std::move(worker)),
      receiver_(receiver),
      on_fault_(on_fault) {}

void reply_watch::start() {
  boost::asio::post(loop_, [self = shared_from_this()] { self->look(); });
}

void reply_watch::stop() {
  std::promise<void> stopped;
  boost::asio::post(loop_, [&] {
    boost::system::error_code ignored;
    readable_.close(ignored);
    worker_ = nullptr;
    stopped.set_value();
  });
  stopped.get_future().wait();
}

void reply_watch::look() {
  if (!worker_) return;
  try {
    receive();
  } catch (const std::exception&) {
    worker_->has_fault = true;
    on_fault_.signal();
  }
}

void reply_watch::receive() {
  if (receiver_.receive(*worker_) || !worker_->channel.begin_sleep()) {
    // The loop goes on with what these replies have led to before it looks for further ones.
    boost::asio::post(loop_, [self = shared_from_this()] { self->look(); });
    return;
  }
  readable_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       [self = shared_from_this()](const boost::system::error_code&) {
                         if (!self->worker_) return;
                         self->worker_->channel.end_sleep();
                         self->look();
                       });
}

}  // namespace sluice::service
