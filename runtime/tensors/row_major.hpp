// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/extents.hpp>

namespace sluice::detail {

/// Row-major strides without gaps for `shape`, which has no negative extent. An extent of 0 counts
/// as 1; a stride that overflows is 0.
[[nodiscard]] extents row_major_strides(const extents& shape) noexcept;

}  // namespace sluice::detail
