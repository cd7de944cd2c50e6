// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/operation.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

namespace sluice::operations {

/// The plan of kernels that need nothing but scratch memory.
class workspace_plan final : public operation_plan {
 public:
  explicit workspace_plan(std::size_t bytes) noexcept : bytes_(bytes) {}
  std::size_t workspace_bytes() const noexcept override { return bytes_; }

 private:
  std::size_t bytes_;
};

/// A size of scratch memory of at least `bytes`, so that calls of similar sizes share a plan.
[[nodiscard]] constexpr std::int64_t rounded_workspace(std::int64_t bytes) noexcept {
  constexpr std::int64_t step = std::int64_t{16} << 20U;
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  if (bytes <= step) {
    return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes)));
  }
  return bytes > most - step ? most : (bytes + step - 1) / step * step;
}

/// The plan of a call, whose key has the size of the scratch memory.
template <class Call>
[[nodiscard]] std::shared_ptr<const operation_plan> make_workspace_plan(lane_libraries&,
                                                                        const Call& call) {
  return std::make_shared<workspace_plan>(static_cast<std::size_t>(call.key.workspace_bytes));
}

}  // namespace sluice::operations
