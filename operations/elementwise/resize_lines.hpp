// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/resize_pass.hpp"

// Interpolation on the host, line by line: a line of the result lies along the axis whose elements
// are nearest to each other in x. The rows of x around it are added up, and then their columns.
namespace sluice::host {

/// Computes an interpolation. Instantiated for f32 and f64 and one to three axes.
/// @return whether it did: not if a row would take too much memory
template <class T, int Axes>
[[nodiscard]] bool resize_by_lines(const operations::resize_body<T, Axes>& body,
                                   const operations::map_layout<2 + Axes>& layout);

}  // namespace sluice::host
