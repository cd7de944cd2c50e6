// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/plain_calls.hpp"

#include <sluice/operations/blas.hpp>

namespace sluice::cli {

/// Work on a GPU by direct calls of CUDA and its libraries. The functions are null on the host
/// device. The arguments must outlive them. @throws error if a call fails
///@{
/// Launches batches of `size` products, at most 256, with one call of cuBLAS each: as many as
/// `count` products need. Each batch uploads its addresses. Then waits.
using batches_by_hand = std::function<void(std::size_t size, std::int64_t count)>;
/// Batches of `products`, which have equal sizes.
[[nodiscard]] batches_by_hand make_batches_by_hand(device_runtime& runtime,
                                                   const std::vector<sgemm>& products);

/// Calls cuBLASLt as often as stated, then waits.
using products_by_hand = std::function<void(std::int64_t count)>;
/// Products c = a · b of square matrices of one type, in TF32 if they are f32, by the fastest of
/// the algorithms that the heuristic of cuBLASLt names.
[[nodiscard]] products_by_hand make_products_by_hand(device_runtime& runtime, const tensor& a,
                                                     const tensor& b, const tensor& c);

/// Launches one CUDA graph and waits for it.
using graph_by_hand = std::function<void()>;
/// A graph of the calls that `add` adds, without those of the runtime.
[[nodiscard]] graph_by_hand make_graph_by_hand(device_runtime& runtime,
                                               const std::function<void(plain_calls&)>& add);
///@}

#ifndef SLUICE_HAS_CUDA
inline batches_by_hand make_batches_by_hand(device_runtime&, const std::vector<sgemm>&) {
  return nullptr;
}
inline products_by_hand make_products_by_hand(device_runtime&, const tensor&, const tensor&,
                                              const tensor&) {
  return nullptr;
}
inline graph_by_hand make_graph_by_hand(device_runtime&, const std::function<void(plain_calls&)>&) {
  return nullptr;
}
#endif

}  // namespace sluice::cli
