// SPDX-License-Identifier: Apache-2.0
#include "service/worker/warm_up_request.hpp"

#include <sluice/envelope/reply_token.hpp>
#include <sluice/operations/tensors.hpp>

#include <utility>

namespace sluice::service {
namespace {

class warm_up_receiver final : public reply_token<host_tensors>::receiver {
 public:
  warm_up_receiver(warm_up_request::callback&& done, worker_lanes::place place)
      : done_(std::move(done)), place_(std::move(place)) {}

  void succeed(host_tensors) noexcept override { done_(nullptr); }
  void fail(const error& failure) noexcept override { done_(&failure); }

 private:
  const warm_up_request::callback done_;
  const worker_lanes::place place_;
};

}  // namespace

void warm_up_request::pass_on(detail::model_run&& run) {
  auto& lane = lanes_.choose(lane_count_);
  run_to_host request{.what = std::move(run.what), .inputs = std::move(run.inputs)};
  auto token =
      reply_token<host_tensors>::make<warm_up_receiver>(std::move(done_), lane.take_place());
  lane.executor().submit(std::move(request), options, std::move(token), sender);
}

void warm_up_request::send_error(const error& why) noexcept {
  if (done_) done_(&why);
}

}  // namespace sluice::service
