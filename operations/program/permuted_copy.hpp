// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/following_steps.hpp"

#include <sluice/runtime/device.hpp>

#include <cstdint>
#include <optional>

namespace sluice::operations {

/// By dimension of `view`: the dimension of `whole` that it is. Nothing if the view is not all of
/// `whole` with its dimensions in any order. Both lie in the same memory.
[[nodiscard]] std::optional<extents> order_of_dimensions(const tensor_layout& view,
                                                         const tensor_layout& whole);

/// A step that can write its result where the only step behind it copies it, with the dimensions in
/// another order: both as one group. Nothing if there is no such copy, or the operation does not
/// write any order of dimensions as fast. `attention` does.
[[nodiscard]] std::optional<fused_group> join_permuted_copy(const detail::program_graph& graph,
                                                            const program_inference& inferred,
                                                            const following_steps& following,
                                                            const fusion& groups,
                                                            std::uint32_t step, device_kind kind);

}  // namespace sluice::operations
