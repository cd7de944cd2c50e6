// SPDX-License-Identifier: Apache-2.0
#include "models/host_evaluation.hpp"

#include "models/blocking_executor.hpp"

#include <sluice/operations/run.hpp>

namespace sluice::models {

host_evaluation::host_evaluation() = default;
host_evaluation::~host_evaluation() = default;

host_tensors host_evaluation::run(const program& what) {
  const std::lock_guard lock(mutex_);
  if (!running_)
    running_ = std::make_unique<blocking_executor>(std::make_shared<device_service>("host"));
  return running_->run<host_tensors>(run_to_host{.what = what});
}

}  // namespace sluice::models
