// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/operation.hpp>
#include <sluice/operations/rng.hpp>

#include <cstdint>

namespace sluice::operations {

/// The distribution of random numbers.
enum class random_distribution : std::uint8_t { bits, uniform, normal };

/// The numbers [first, last] of a sequence, both included.
struct random_call {
  random_distribution distribution = random_distribution::bits;
  element_type type = element_type::u32;
  bool nothing = false;  ///< there are no numbers
  std::uint64_t seed = 0;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  double mean = 0;    ///< exact in `type`
  double stddev = 1;  ///< exact in `type`

  [[nodiscard]] launch_facts facts() const noexcept {
    // A normal number needs a logarithm, a root, a sine and a cosine.
    constexpr double work_of_normal = 12;
    const double work_of_number = distribution == random_distribution::normal ? work_of_normal : 1;
    if (nothing) return {};
    return {.sizes = {static_cast<std::int64_t>(last - first) + 1},
            .work = work_of_number * (static_cast<double>(last - first) + 1)};
  }
};

}  // namespace sluice::operations

namespace sluice::host {
/// Writes the numbers to `y`, with Random123.
void compute_random(const operations::random_call& call, void* y);
}  // namespace sluice::host

namespace sluice::cuda {
/// Loads our kernels.
void prepare_random(lane_libraries& libraries);
/// Enqueues a kernel that writes the numbers to `y`.
void enqueue_random(lane_libraries& libraries, const operations::random_call& call, void* y);
}  // namespace sluice::cuda
