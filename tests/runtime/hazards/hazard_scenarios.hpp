// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/blocks/block_record.hpp"

#include <sluice/runtime/device.hpp>

#include <memory>
#include <random>
#include <string_view>

namespace sluice::test {

/// Two uses of the same memory on different streams that exactly one wait orders.
enum class scenario_kind : std::uint8_t {
  read_after_write,
  write_after_read,
  write_after_write,
  allocation_ready,  ///< a use after the stream-ordered allocation of its memory
  unfenced_use,      ///< a use after one that was published without a fence
  reuse,             ///< a use after one of the previous block, in memory that a pool granted again
  free_after_use,    ///< a free after a use
  reclaim,  ///< a free by the reclaim thread after a use; only on host devices, where a plain free
            ///< waits for nothing
};

/// The treatment of the scenario's wait.
enum class scenario_mode : std::uint8_t {
  fenced,    ///< the wait is made
  left_out,  ///< the wait is left out, and the later use finishes before the earlier one begins
  racing,    ///< the wait is left out, and the two uses are unordered: for ThreadSanitizer
};

/// Runs the scenario with the earlier use behind a gate. Returns whether the results equal those of
/// a serial run.
///
/// With the mode `left_out` they never do. Every kind except `reclaim` runs on any device.
/// @throws std::runtime_error if the memory does not get the address that the scenario needs
[[nodiscard]] bool run_scenario(scenario_kind kind, const std::shared_ptr<device>& device,
                                scenario_mode mode, std::mt19937_64& random);

[[nodiscard]] std::string_view name_of(scenario_kind kind) noexcept;
[[nodiscard]] std::string_view name_of(detail::hazard kind) noexcept;

}  // namespace sluice::test
