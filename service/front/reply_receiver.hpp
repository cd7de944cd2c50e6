// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/pending_requests.hpp"
#include "service/front/worker_link.hpp"

namespace sluice::service {

/// Receives the replies of workers and answers their requests. Thread-safe.
class reply_receiver {
 public:
  explicit reply_receiver(pending_requests& pending) noexcept : pending_(pending) {}

  /// Answers the requests whose replies have arrived, some tens at most. False if there were none.
  /// @throws arena_fault, std::runtime_error if the worker has broken a rule, after the answers to
  /// what it has sent before
  bool receive(worker_link& worker);

 private:
  void answer(received_reply&& reply, worker_link& worker);

  pending_requests& pending_;
};

}  // namespace sluice::service
