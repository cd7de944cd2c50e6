// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/blas/gemm_call.hpp"
#include "operations/dnn/recurrent_call.hpp"

#include <sluice/operations/operation.hpp>

#include <array>
#include <cstdint>

namespace sluice::operations {

/// One layer with its matrices.
struct recurrent_layer_call : recurrent_call {
  blas_matrix w{};             ///< the matrices of the directions are a stack
  blas_matrix r{};             ///< likewise
  std::int64_t x_leading = 1;  ///< distance between rows of X: the sequences of an element
  /// What a plan depends on.
  struct plan_key {
    std::int64_t workspace_bytes = 0;
  };
  plan_key key{};   ///< of a GPU
  plan_key host{};  ///< of the host device

  [[nodiscard]] const plan_key& host_key() const noexcept { return host; }
  [[nodiscard]] launch_facts facts() const noexcept;
  /// The bytes of a number in which sums are computed.
  [[nodiscard]] std::int64_t sum_bytes() const noexcept { return type == storage::f64 ? 8 : 4; }
};

/// The scratch memory of a layer: offsets in bytes.
struct recurrent_layout {
  std::int64_t steps = 1;         ///< steps of a chunk
  std::int64_t gate_leading = 1;  ///< distance between rows of the gates, in elements
  std::int64_t sum_leading = 1;   ///< distance between rows of the sums, in elements
  std::int64_t gates = 0;     ///< X · Wᵀ of a chunk: directions, elements, sequences, rows of W
  std::int64_t sums = 0;      ///< H · Rᵀ: directions, sequences, rows of R
  std::int64_t h = 0;         ///< H: directions, sequences, numbers
  std::int64_t c = 0;         ///< C of an LSTM
  std::int64_t reset = 0;     ///< r ∘ H of a GRU, if it is multiplied
  std::int64_t w_panels = 0;  ///< W of all directions, if `has_w_panels`
  std::int64_t r_panels = 0;  ///< the first and the second rows of R, if `has_r_panels`
  std::int64_t bytes = 0;     ///< of all
};
[[nodiscard]] recurrent_layout host_layout(const recurrent_layer_call& call) noexcept;
[[nodiscard]] recurrent_layout gpu_layout(const recurrent_layer_call& call) noexcept;

/// Whether the host device multiplies with a copy of R, or W, in panels. A few rows do not pay for
/// it.
///@{
[[nodiscard]] bool has_r_panels(const recurrent_layer_call& call) noexcept;
[[nodiscard]] bool has_w_panels(const recurrent_layer_call& call) noexcept;
///@}
/// The rows of R whose products are computed together: all, or those of z and r and then those of
/// h.
struct row_range {
  std::int64_t first;
  std::int64_t count;
};
[[nodiscard]] row_range first_rows(const recurrent_call& call) noexcept;
[[nodiscard]] row_range second_rows(const recurrent_call& call) noexcept;

/// X · Wᵀ of a direction, for `rows` rows of X. The rows of the result have the distance `leading`.
[[nodiscard]] gemm_call input_product(const recurrent_layer_call& call, std::int64_t rows,
                                      std::int64_t leading) noexcept;
/// H · Rᵀ of all directions, for some rows of R. The rows of the result have the distance
/// `leading`, and the results of two directions the distance `distance`.
[[nodiscard]] gemm_call state_product(const recurrent_layer_call& call, const row_range& rows,
                                      std::int64_t leading, std::int64_t distance) noexcept;
/// The element of R with which a row begins.
[[nodiscard]] std::int64_t row_offset(const recurrent_layer_call& call, std::int64_t row) noexcept;

/// The launch of a product of matrices at these addresses.
class product_launch {
 public:
  product_launch(const void* a, const void* b, void* c) noexcept
      : addresses_{const_cast<void*>(a), const_cast<void*>(b), c} {}
  [[nodiscard]] launch_of<gemm> get() const noexcept {
    return launch_of<gemm>({.addresses = addresses_});
  }

 private:
  std::array<void*, detail::operand_count<gemm>()> addresses_;
};

}  // namespace sluice::operations

// The implementations of recurrent layers with at least one sequence; see `operation_functions`.

namespace sluice::host {
/// Refuses sizes beyond OpenBLAS's.
/// @throws error `unsupported`
void check_recurrent(const operations::recurrent_layer_call& call);
/// The matrices that are prepacked copies.
struct prepacked_matrices {
  bool w = false;
  bool r = false;
};
/// Computes one chunk of steps after the other.
void compute_recurrent(const operations::recurrent_layer_call& call,
                       const operations::recurrent_addresses& addresses,
                       const prepacked_matrices& packed, void* workspace);
/// The layout of prepacked copies of W and R.
///@{
[[nodiscard]] prepacked_layout layout_of_w(const operations::recurrent_layer_call& call);
[[nodiscard]] prepacked_layout layout_of_r(const operations::recurrent_layer_call& call);
///@}
/// Make prepacked copies of W and R.
///@{
void prepack_w(const operations::recurrent_layer_call& call, const void* w, void* copy);
void prepack_r(const operations::recurrent_layer_call& call, const void* r, void* copy);
///@}
}  // namespace sluice::host

namespace sluice::cuda {
/// Makes the cuBLAS handle of a lane and loads the kernels.
void prepare_recurrent(lane_libraries& libraries);
/// Enqueues products, and a kernel for each step.
void enqueue_recurrent(lane_libraries& libraries, const operations::recurrent_layer_call& call,
                       const operations::recurrent_addresses& addresses, void* workspace);
}  // namespace sluice::cuda
