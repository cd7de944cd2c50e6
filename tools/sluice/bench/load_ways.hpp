// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/paired_rounds.hpp"

#include <sluice/envelope/kernel_trace.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cli {

/// Counts launches and the batches that they are members of. Thread-safe.
class batch_sizes final : public kernel_trace {
 public:
  void after_complete(const kernel_info& info, const kernel_outcome&) override {
    launches_.fetch_add(1, std::memory_order_relaxed);
    batches_.fetch_add(1.0 / static_cast<double>(info.batch), std::memory_order_relaxed);
  }
  /// The mean number of launches in a batch.
  [[nodiscard]] double mean() const { return static_cast<double>(launches_) / batches_; }

 private:
  std::atomic<std::int64_t> launches_{0};
  std::atomic<double> batches_{0};
};

/// A way of work whose requests are launched together. `make_load(actor)` makes the clients of an
/// actor. The mean batch is that of `counted` requests to an actor of its own, which `spawn` spawns
/// (`spawn_blas` or another of its kind); the measured `actor` does without the trace.
template <class Actor, class Spawn, class MakeLoad>
way_of_work batched_load(session& current, std::string name, const Actor& actor, const Spawn& spawn,
                         std::int64_t counted, const MakeLoad& make_load) {
  return {.name = std::move(name),
          .run = [load = make_load(actor)](std::int64_t n) { load->send(n); },
          .mean_batch =
              [=, &current] {
                const auto sizes = std::make_shared<batch_sizes>();
                make_load(spawn(current.system(), current.device().shared_service(), sizes))
                    ->send(counted);
                return sizes->mean();
              }};
}

/// The requests of clients.
template <class Load>
timed_work sending(std::shared_ptr<Load> load) {
  return [load = std::move(load)](std::int64_t n) {
    load->send(n);
  };
}

/// Requests of a thread that waits for each reply. `requests` take turns, and must outlive the
/// work.
template <class Reply, class Handle, class Request>
timed_work asking(session& current, const Handle& target, const std::vector<Request>& requests) {
  return [&current, target, &requests](std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      (void)current.ask<Reply>(target, in_turns(requests, i));
    }
  };
}

}  // namespace sluice::cli
