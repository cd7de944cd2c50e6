// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/seam.hpp"
#include "service/worker/worker_lanes.hpp"

#include <sluice/runtime/error.hpp>

#include <cstddef>
#include <functional>

namespace sluice::service {

/// A run of a model whose results nobody wants.
class warm_up_request final : public detail::model_request {
 public:
  /// Called once, by any thread, with nullptr or the error. Must not throw or block.
  using callback = std::function<void(const error*)>;

  warm_up_request(worker_lanes& lanes, std::size_t lane_count, callback done)
      : model_request({}, {}, true),
        lanes_(lanes),
        lane_count_(lane_count),
        done_(std::move(done)) {}
  warm_up_request(const warm_up_request&) = delete;
  warm_up_request& operator=(const warm_up_request&) = delete;
  ~warm_up_request() override { drop(); }

 private:
  void pass_on(detail::model_run&& run) override;
  void send_error(const error& why) noexcept override;

  worker_lanes& lanes_;
  const std::size_t lane_count_;
  callback done_;
};

}  // namespace sluice::service
