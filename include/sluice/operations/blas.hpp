// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/activation.hpp>
#include <sluice/operations/math_mode.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/scalar.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/gpu_ref.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>

namespace sluice {

/// How a matrix lies in memory. The distance between neighbouring rows (row-major) or columns
/// (column-major) is its leading dimension, in elements.
enum class layout : std::uint8_t { row_major, column_major };

/// Whether an operation takes a matrix as it is stored or its transpose.
enum class transpose : std::uint8_t { no, yes };

/// C = activation(alpha · A · B + beta · C + bias) + residual, for matrices or stacks of matrices.
///
///     gemm{.a = x, .b = weights.transposed(), .c = y, .alpha = 0.5, .beta = 1}
///     gemm{.a = x, .b = weights.transposed(), .bias = bias, .activation = activation::gelu}
///
/// A has the shape [m, k], B [k, n] and C [m, n]. Each may have leading dimensions, which count
/// independent products. They are aligned at the last one; dimensions that are missing or have
/// extent 1 are repeated, as in NumPy's `matmul`. C has all of them.
///
/// | A | B | C | computed in |
/// |---|---|---|---|
/// | f32, f64, c64, c128 | type of A | type of A | this type; as TF32 only if `math` allows it |
/// | f16, bf16 | type of A | type of A, or f32 | f32, rounded once |
/// | i8, u8 | i8 | i32 | i32 |
///
/// Of integers, alpha is 1, beta is 0 or 1, and there is no bias, activation or residual. C is
/// exact if no part of a sum leaves the range of i32. `scaled_gemm` takes e4m3 and e5m2.
///
/// The bias and the residual are of the type of C. The bias has one number for each column of C, in
/// the shape [n] or [1, n], one for each row, [m, 1], or one for all, [1] or [1, 1]. It is the same
/// for all products of a stack. The residual has the shape of C. Complex types take no activation.
///
/// With a bias, an activation or a residual, the host also rounds a C of 16 bits once. A GPU may
/// round it twice: before it adds the bias, applies the activation or adds the residual, and at the
/// end. `gelu_tanh` of such a C may be that of cuBLAS, whose error is up to |x| / 1000 for the
/// argument x. On a GPU, `relu` may turn NaN into 0, as cuBLAS does.
///
/// Matrices that are stored by rows or by columns, with one distance between the matrices of a
/// stack, are used as they are. A matrix with other strides is packed: the launch uses a copy in
/// temporary memory.
///
/// If beta is 0, C is not read. If alpha or k is 0, A and B are not read. C shares no bytes with A,
/// B, the bias or the residual: beta adds the previous C. The result is C, a new tensor without
/// gaps if it is not given.
struct gemm {
  operand a{};       ///< A
  operand b{};       ///< B
  operand c{};       ///< C
  scalar alpha = 1;  ///< factor of the product
  scalar beta = 0;   ///< factor of the previous C
  operand bias{};    ///< added before the activation; 0 if not given
  sluice::activation activation = sluice::activation::none;  ///< applied to each element
  operand residual{};                  ///< added after the activation; 0 if not given
  layout new_c = layout::row_major;    ///< how the matrices of C lie in memory if C is not given
  std::optional<element_type> type{};  ///< type of a new C; the first of the table if not given
  math_mode math = math_mode::f32;     ///< precision of products of f32

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("a", &gemm::a), input("b", &gemm::b), output("c", &gemm::c),
                           parameter("alpha", &gemm::alpha), parameter("beta", &gemm::beta),
                           input("bias", &gemm::bias), parameter("activation", &gemm::activation),
                           input("residual", &gemm::residual), parameter("new_c", &gemm::new_c),
                           parameter("type", &gemm::type), parameter("math", &gemm::math));
  }
};

/// The functions behind `gemm`: of one without bias, activation and residual, and of any. Large
/// ones of 16 bits have those of any.
///@{
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<gemm>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(const gemm& operation);
///@}

/// `gemm` as BLAS spells it: C = alpha · op(A) · op(B) + beta · C, where op(A) is m × k, op(B) is
/// k × n and C is m × n.
///
///     sgemm{.m = 4, .n = 4, .k = 4, .a = a, .b = b}
///
/// `lda`, `ldb`, `ldc` are the distances between rows (row-major) or columns (column-major) of the
/// matrices as they are stored, in elements; 0 stands for no gap. The result is `c`. A new C has no
/// gaps.
template <class T>
struct blas_gemm {
  /// The value of a size that is not given.
  static constexpr std::int64_t not_given = std::numeric_limits<std::int64_t>::min();

  sluice::layout layout = sluice::layout::row_major;  ///< how a, b and c lie in memory
  transpose transpose_a = transpose::no;              ///< op of A
  transpose transpose_b = transpose::no;              ///< op of B
  std::int64_t m = not_given;                         ///< rows of op(A) and C, at least 0
  std::int64_t n = not_given;                         ///< columns of op(B) and C, at least 0
  std::int64_t k = not_given;  ///< columns of op(A) and rows of op(B), at least 0
  T alpha = 1;                 ///< factor of the product
  gpu_ref<T> a{};              ///< A
  std::int64_t lda = 0;        ///< leading dimension of A
  gpu_ref<T> b{};              ///< B
  std::int64_t ldb = 0;        ///< leading dimension of B
  T beta = 0;                  ///< factor of the previous C
  gpu_ref<T> c{};              ///< C, allocated when left out
  std::int64_t ldc = 0;        ///< leading dimension of C
};
/// Single-precision `blas_gemm`.
using sgemm = blas_gemm<float>;
/// Double-precision `blas_gemm`.
using dgemm = blas_gemm<double>;

/// The operation that `request` spells.
/// @throws error `invalid_argument` if a size is not given or negative
/// @throws error `invalid_argument` if `layout` or a `transpose` is not an enumerator
/// @throws error `invalid_argument` if a leading dimension is less than a row or column, or `ldc`
/// states a gap and `c` is not given
/// @throws error `invalid_argument` if the size of a matrix overflows, or the matrix exceeds its
/// reference
///@{
[[nodiscard]] SLUICE_EXPORT gemm to_operation(sgemm request);
[[nodiscard]] SLUICE_EXPORT gemm to_operation(dgemm request);
///@}

}  // namespace sluice
