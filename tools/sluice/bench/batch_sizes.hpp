// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/session.hpp"

#include <sluice/envelope/kernel_trace.hpp>

#include <atomic>
#include <cstdint>
#include <memory>

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

/// The mean number of launches in a batch while `work(actor)` sends requests to an actor of its
/// own. `spawn` is `spawn_blas` or another of its kind. Actors that are measured do without the
/// trace.
template <class Spawn, class Work>
double mean_batch(session& current, const Spawn& spawn, const Work& work) {
  const auto sizes = std::make_shared<batch_sizes>();
  work(spawn(current.system(), current.device().shared_service(), sizes));
  return sizes->mean();
}

}  // namespace sluice::cli
