// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice::service {

/// Where the message and the tensors lie in one region.
struct region_plan {
  std::uint64_t bytes = 0;
  std::vector<std::uint64_t> tensors{};  ///< offsets from the beginning of the region
};

/// A region of a message of this many words and of tensors of these sizes in bytes, each of which
/// begins at a multiple of 256 bytes. Nothing if it is larger than `limit`.
[[nodiscard]] std::optional<region_plan> plan_region(std::size_t words,
                                                     std::span<const std::uint64_t> sizes,
                                                     std::uint64_t limit);

}  // namespace sluice::service
