// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/tensor.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>

namespace sluice::operations {

/// One of many tensors that a launch reads or writes.
struct touched_tensor {
  const tensor* value = nullptr;
  bool is_written = false;
};

/// How a search for overlaps has ended.
struct overlap_search {
  std::size_t comparisons = 0;  ///< of two tensors
  std::optional<std::size_t>
      refused{};  ///< the number of one that interleaves with too many others
};

/// Calls `visit(i, j)` for pairs of tensors that share a byte and of which tensor i is written; if
/// both are, i < j. It returns false if it needs no further pair of i and a tensor that is only
/// read. A pair may be visited again.
///
/// Few tensors are compared pair by pair. n tensors take O(n log n) comparisons if few of them
/// begin within each other, or if those that do have a stride in common, as the columns of a matrix
/// have. Otherwise the search ends with `refused`; then pairs may be missing.
overlap_search for_each_overlap(std::span<const touched_tensor> all,
                                const std::function<bool(std::size_t, std::size_t)>& visit);

}  // namespace sluice::operations
