// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/blocks/block_record.hpp"

#include <sluice/runtime/device.hpp>

#include <memory>
#include <random>
#include <string_view>

namespace sluice::test {

/// Two uses of the same memory, on different streams, that are ordered by one wait and by nothing
/// else.
enum class scenario_kind : std::uint8_t {
  read_after_write,
  write_after_read,
  write_after_write,
  allocation_ready,  ///< a use and the stream-ordered allocation that made the memory
  unfenced_use,      ///< a use and one that was published before without a fence
  reuse,             ///< a use and one of what lay there before, with which a pool granted it again
  free_after_use,    ///< a use and the free after it
  reclaim,  ///< a use and the reclaim thread's free after it; on host devices, where a plain
            ///< free waits for nothing by itself
};

/// What becomes of the one wait that a scenario is about.
enum class scenario_mode : std::uint8_t {
  fenced,    ///< it is made
  left_out,  ///< it is left out, and whoever should have waited has finished before the other
             ///< begins
  racing,    ///< it is left out, and the two have no order: for ThreadSanitizer
};

/// Runs the scenario, on any device unless its kind says otherwise, with the earlier use behind a
/// gate. Returns whether the results are those of a serial run, which in the mode `left_out` they
/// never are.
/// @throws std::runtime_error when the memory does not come to lie as the scenario needs it
[[nodiscard]] bool run_scenario(scenario_kind kind, const std::shared_ptr<device>& on,
                                scenario_mode mode, std::mt19937_64& random);

[[nodiscard]] std::string_view name_of(scenario_kind kind) noexcept;
[[nodiscard]] std::string_view name_of(detail::hazard kind) noexcept;

}  // namespace sluice::test
