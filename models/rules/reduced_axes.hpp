// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/reduce.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace sluice::models {

/// The dimensions of X that a reduction reduces and keeps with extent 1.
///@{
/// The only one.
[[nodiscard]] std::optional<std::int64_t> only_axis(const reduce& operation, std::size_t rank);
/// The first one, if those after it are all reduced as well, and none before it.
[[nodiscard]] std::optional<std::int64_t> first_axis(const reduce& operation, std::size_t rank);
///@}

}  // namespace sluice::models
