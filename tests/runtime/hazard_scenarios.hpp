#pragma once

#include "runtime/block_record.hpp"

#include <sluice/runtime/device.hpp>

#include <memory>
#include <random>
#include <string_view>

namespace sluice::test {

/// What becomes of the one wait that a scenario is about.
enum class scenario_mode : std::uint8_t {
  fenced,    ///< it is made
  left_out,  ///< it is left out, and whoever should have waited has finished before the other
             ///< begins
  racing,    ///< it is left out, and the two have no order: for ThreadSanitizer
};

/// Two uses of the same memory, on different streams, that are ordered by one wait of class `kind`
/// and by nothing else. The earlier one stands behind a gate. On every device. Returns whether the
/// results are those of a serial run, which in the mode `left_out` they never are.
/// @throws std::runtime_error when the memory does not come to lie as the scenario needs it
[[nodiscard]] bool run_scenario(detail::hazard kind, const std::shared_ptr<device>& on,
                                scenario_mode mode, std::mt19937_64& random);

[[nodiscard]] std::string_view name_of(detail::hazard kind) noexcept;

}  // namespace sluice::test
