// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/arena/run_statistics.hpp"

#include <sluice/envelope/kernel_trace.hpp>

#include <chrono>

namespace sluice::service {

/// Notes of each launch how long it took and how many requests it had.
///
/// The runtime calls `after_complete` and then answers the request, on one thread. So the answer
/// finds the note of its launch in a variable of its thread.
class completion_trace final : public kernel_trace {
 public:
  void after_complete(const kernel_info& launch, const kernel_outcome& outcome) override;

  /// The statistics of the launch that completed last on this thread, of a request that was
  /// received at `receipt`. Called by the answer to the request.
  [[nodiscard]] static run_statistics statistics_of_last(
      std::chrono::steady_clock::time_point receipt) noexcept;
};

}  // namespace sluice::service
