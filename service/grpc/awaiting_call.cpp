// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/awaiting_call.hpp"

#include <utility>

namespace sluice::service {
namespace {

[[nodiscard]] request_error client_has_hung_up() {
  return {request_status::cancelled, "the client has hung up"};
}

}  // namespace

std::shared_ptr<awaited_run> awaiting_call::await(std::function<void(run_result)> receive) {
  auto run =
      std::make_shared<awaited_run>(context().backend, context().deliveries, std::move(receive));
  const std::scoped_lock lock(mutex_);
  if (is_cancelled_) throw client_has_hung_up();
  run_ = run;
  return run;
}

void awaiting_call::OnCancel() {
  std::shared_ptr<awaited_run> run;
  {
    const std::scoped_lock lock(mutex_);
    is_cancelled_ = true;
    run = run_;
  }
  if (run && run->cancel()) finish(client_has_hung_up());
}

}  // namespace sluice::service
