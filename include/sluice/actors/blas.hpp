// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/blas_types.hpp>
#include <sluice/actors/caf.hpp>
#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/envelope/reply_token.hpp>
#include <sluice/export.hpp>

#include <cstdint>
#include <memory>

namespace sluice {

/// Asks for C = alpha · op(A) · op(B) + beta · C, where op(A) is m × k, op(B) is k × n and C is m ×
/// n. Computed in T; for float in f32, never TF32. The reply is `c`.
///
/// `lda`, `ldb`, `ldc` are the distances between rows (row-major) or columns (column-major) of the
/// matrices as they are stored, in elements; 0 stands for no gap. Without `c` one is allocated
/// (beta must be 0). With beta 0, C is not read; with k or alpha 0, A and B are not read. C must
/// not share bytes with A or B.
///
/// Errors: `invalid_argument` (negative or overflowing sizes, a leading dimension too small, an
/// operand that is missing, too small, on another device or overlapping), `stale_ref`,
/// `out_of_memory`, `upstream_failed`, `unsupported` (sizes beyond the library's),
/// `library_failure`, `shutting_down`, `device_lost`.
template <class T>
struct gemm {
  sluice::layout layout = sluice::layout::row_major;  ///< how a, b and c lie in memory
  transpose transpose_a = transpose::no;              ///< op of A
  transpose transpose_b = transpose::no;              ///< op of B
  std::int64_t m = 0;                                 ///< rows of op(A) and C, at least 0
  std::int64_t n = 0;                                 ///< columns of op(B) and C, at least 0
  std::int64_t k = 0;                   ///< columns of op(A) and rows of op(B), at least 0
  T alpha = 1;                          ///< factor of the product
  gpu_ref<T> a{};                       ///< A
  std::int64_t lda = 0;                 ///< leading dimension of A
  gpu_ref<T> b{};                       ///< B
  std::int64_t ldb = 0;                 ///< leading dimension of B
  T beta = 0;                           ///< factor of the previous C
  gpu_ref<T> c{};                       ///< C, allocated when left out
  std::int64_t ldc = 0;                 ///< leading dimension of C
  reply_on reply = reply_on::finished;  ///< when the reply is sent
};
/// Single-precision `gemm`.
using sgemm = gemm<float>;
/// Double-precision `gemm`.
using dgemm = gemm<double>;

/// The library actor for dense linear algebra: cuBLAS on a GPU, OpenBLAS on the host. Requests of
/// one sender are launched in the order in which they arrive, on one stream.
using blas_actor = caf::typed_actor<caf::replies_to<gemm<float>>::with<gpu_ref<float>>,
                                    caf::replies_to<gemm<double>>::with<gpu_ref<double>>,
                                    caf::reacts_to<caf::atom_constant<caf::atom("room")>>>;

/// Starts a blas actor on a thread of its own, with a lane of its own on `service`. Slow: makes the
/// library's handle.
/// @throws error `library_failure`, `out_of_memory`, `shutting_down`, `device_lost`
[[nodiscard]] SLUICE_EXPORT blas_actor spawn_blas(caf::actor_system& system,
                                                  std::shared_ptr<device_service> service,
                                                  std::shared_ptr<kernel_trace> trace = nullptr);

}  // namespace sluice

namespace caf {
template <class T>
struct allowed_unsafe_message_type<sluice::gemm<T>> : std::true_type {};
}  // namespace caf
