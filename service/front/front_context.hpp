// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/byte_budget.hpp"
#include "service/front/host_policy.hpp"
#include "service/front/http_options.hpp"
#include "service/front/model_backend.hpp"

#include <boost/asio/thread_pool.hpp>

namespace sluice::service {

/// What the connections of one server share. It outlives them.
struct front_context {
  const http_options& options;
  const host_policy& hosts;
  model_backend& backend;
  byte_budget json;
  boost::asio::thread_pool json_threads;
};

}  // namespace sluice::service
