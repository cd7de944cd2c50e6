// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::service {

/// How many processes of the machine the kernel has killed because memory was short, since it
/// started; 0 if it does not say so. Linux 4.13 or newer counts them in /proc/vmstat.
[[nodiscard]] std::uint64_t count_oom_kills() noexcept;

/// The number in the text of /proc/vmstat; 0 if it has none.
[[nodiscard]] std::uint64_t oom_kills_in(std::string_view statistics) noexcept;

}  // namespace sluice::service
