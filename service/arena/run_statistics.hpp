// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace sluice::service {

/// What a worker has measured of a run.
struct run_statistics {
  static constexpr std::uint64_t max_ns = std::uint64_t{366} * 24 * 3'600 * 1'000'000'000;
  static constexpr std::uint64_t max_batch = 128;

  /// From the receipt of the request to its launch. A program that is made meanwhile counts.
  std::uint64_t queue_ns = 0;
  /// From the launch to its completion: the transfers of inputs and outputs, and the rest of an
  /// earlier launch of the same lane.
  std::uint64_t compute_ns = 0;
  std::uint64_t batch = 1;  ///< the requests that were launched together with this one
};

}  // namespace sluice::service
