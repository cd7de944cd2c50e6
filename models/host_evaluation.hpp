// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/program.hpp>
#include <sluice/operations/tensors.hpp>

#include <memory>
#include <mutex>

namespace sluice::models {

class blocking_executor;

/// Runs programs without inputs on a host device of its own, which the first of them opens.
/// Thread-safe.
class host_evaluation {
 public:
  host_evaluation();
  host_evaluation(const host_evaluation&) = delete;
  host_evaluation& operator=(const host_evaluation&) = delete;
  ~host_evaluation();

  /// The results of a program. @throws error what a run of it is answered with
  [[nodiscard]] host_tensors run(const program& what);

 private:
  std::mutex mutex_;
  std::unique_ptr<blocking_executor> running_;
};

}  // namespace sluice::models
