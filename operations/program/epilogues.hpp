// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/fusion.hpp"

namespace sluice::operations {

/// Finds products and convolutions that can compute the steps behind them: a sum with a bias or a
/// residual, an activation. Each such group is computed by one call of the operation. So are
/// operations that can write their result where the step behind them copies it; see
/// `join_permuted_copy`. No step of `folded` is in a group.
///
/// Values of 16 bits are rounded once, at the end, where the steps would round each of them.
[[nodiscard]] fusion fuse_epilogues(const detail::program_graph& graph,
                                    const program_inference& inferred, const folding& folded,
                                    device_kind kind);

}  // namespace sluice::operations
