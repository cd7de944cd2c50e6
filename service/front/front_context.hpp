// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/byte_budget.hpp"
#include "service/front/host_policy.hpp"
#include "service/front/http_options.hpp"
#include "service/front/model_backend.hpp"
#include "service/front/request_router.hpp"
#include "service/metrics/http_statistics.hpp"

#include <boost/asio/thread_pool.hpp>

namespace sluice::service {

/// What the connections of one server share. It outlives them.
struct front_context {
  const http_options& options;
  const host_policy& hosts;
  model_backend& backend;
  const request_router& router;
  http_statistics& statistics;
  byte_budget json;
  byte_budget replies;  ///< for their text
  boost::asio::thread_pool json_threads;
  /// Copies from and to the shared memory of clients, who can delay it by what they do with the
  /// file.
  boost::asio::thread_pool copy_threads{1};
};

}  // namespace sluice::service
