// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/grpc_log.hpp"

#include "service/base/log.hpp"

#include <grpc/support/log.h>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sluice::service {
namespace {

void write_grpc_error(gpr_log_func_args* error) {
  if (error->severity < GPR_LOG_SEVERITY_ERROR) return;
  using std::chrono::seconds;
  static std::atomic<std::int64_t> last{-1};
  const std::int64_t now =
      std::chrono::duration_cast<seconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count();
  if (last.exchange(now) == now) return;
  write_log(log_level::warning, "gRPC has an error", {{"problem", error->message}});
}

}  // namespace

void redirect_grpc_log() {
  gpr_set_log_function(write_grpc_error);
}

}  // namespace sluice::service
