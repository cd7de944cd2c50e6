// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/model_backend.hpp"
#include "service/front/sequence_table.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>

namespace sluice::service {

/// Runs the requests of sequences in order, one of each sequence at a time. It outlives the
/// `sequence_backend` while the backend has requests. Thread-safe.
class sequence_dispatch : public std::enable_shared_from_this<sequence_dispatch> {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  sequence_dispatch(model_backend& backend, sequence_limits limits,
                    std::function<time_point()> now);

  /// Answers a request of a sequence, once.
  void submit(const std::shared_ptr<sequence_request>& request);
  void cancel(model_backend::number number) noexcept;
  /// Ends the sequences that have expired, and answers requests that wait with a passed deadline.
  void expire();
  [[nodiscard]] sequence_statistics statistics() const;
  /// Answers the requests that wait with `unavailable`. The backend is not called afterwards.
  void close();

 private:
  /// Puts a request into its sequence. Returns whether it runs now.
  [[nodiscard]] bool admit(const std::shared_ptr<sequence_request>& request);
  /// Passes a request to the backend, and then those that follow it and that no other thread
  /// passes on.
  void dispatch(std::shared_ptr<sequence_request> request);
  void pass_on(const std::shared_ptr<sequence_request>& request);
  /// Takes the result of a request, perhaps while `pass_on` still has it, and dispatches the next.
  void complete(const std::shared_ptr<sequence_request>& request, run_result result);
  void finish(sequence_request& request, run_result result);
  /// The state of the model of a request.
  [[nodiscard]] state_descriptor describe_state(const run_request& run) const;

  model_backend& backend_;
  const std::function<time_point()> now_;
  mutable std::mutex mutex_{};
  std::condition_variable idle_{};
  sequence_table table_;    ///< guarded by mutex_
  std::size_t calls_ = 0;   ///< of the backend by `dispatch`; guarded by mutex_
  bool is_closed_ = false;  ///< guarded by mutex_
};

}  // namespace sluice::service
