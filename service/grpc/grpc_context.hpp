// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/byte_budget.hpp"
#include "service/front/model_backend.hpp"
#include "service/grpc/awaited_run.hpp"
#include "service/grpc/call_registry.hpp"
#include "service/grpc/connection_numbers.hpp"
#include "service/grpc/grpc_options.hpp"
#include "service/grpc/send_deadlines.hpp"

#include <boost/asio/thread_pool.hpp>

#include <memory>

namespace sluice::service {

/// What the calls of one server share. It outlives them.
struct grpc_context {
  const grpc_options options;
  model_backend& backend;
  call_registry calls{};
  connection_numbers connections{};
  send_deadlines sends{options.deadlines.write};
  byte_budget replies{options.limits.reply_bytes_in_flight};
  std::shared_ptr<delivery_count> deliveries = std::make_shared<delivery_count>();
  /// Makes long replies, because the threads of the backend must not.
  boost::asio::thread_pool senders{1};
  /// Copies from and to the shared memory of clients, who can delay it by what they do with the
  /// file.
  boost::asio::thread_pool copy_threads{1};
};

}  // namespace sluice::service
