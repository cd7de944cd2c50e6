// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/activation.hpp>
#include <sluice/operations/blas.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/scalar.hpp>
#include <sluice/runtime/element_type.hpp>

#include <optional>
#include <tuple>

namespace sluice {

/// C = activation(a_scale · b_scale · alpha · A · B + beta · C + bias) + residual, for matrices or
/// stacks of matrices of 8-bit floating-point numbers.
///
///     scaled_gemm{.a = x, .b = weights.transposed(), .a_scale = x_scale, .b_scale = weights_scale}
///
/// A and B are each of e4m3 or e5m2. Their scales are f32 tensors with one element, which the
/// launch reads: those with which `dequantize` multiplies. A scale that is not given is 1. Other
/// types of A and B are refused; `cast` and `quantize` convert them.
///
/// C is f16, bf16 or f32. A new C is bf16 if `type` is not given. `gemm` describes the shapes, how
/// the matrices lie in memory, the bias, the residual and what is read if beta, alpha or k is 0.
/// Then the scales are not read, either.
///
/// Products are exact and are added in f32, and a C of 16 bits is rounded once. Alpha and the
/// scales are f32; in which order they multiply a sum depends on the device, so their product
/// should stay finite in any order. With a bias, an activation or a residual, a GPU may round a C
/// of 16 bits twice, and may compute `gelu_tanh` and `relu`, as `gemm` states.
///
/// A GPU of compute capability 8.9 or above multiplies numbers of 8 bits with its tensor cores if
/// one of A and B is e4m3, A is stored by rows and B by columns, and k, the addresses of A, B and
/// C, and the distances of rows and columns are multiples of 16 bytes. Scales at other addresses
/// are copied first. The fast accumulation of cuBLASLt is off. These tensor cores add a few
/// products with fewer bits than f32 has before they go on in f32, so the error of a sum is up to
/// 2^-8 times the sum of the magnitudes of its products. All other products are of copies of A and
/// B as f16 or bf16, which lie in the workspace of the launch and are exact; their sums are in f32.
struct scaled_gemm {
  operand a{};        ///< A
  operand b{};        ///< B
  operand c{};        ///< C
  operand a_scale{};  ///< factor of A, an f32
  operand b_scale{};  ///< factor of B, an f32
  scalar alpha = 1;   ///< factor of the product
  scalar beta = 0;    ///< factor of the previous C
  operand bias{};     ///< added before the activation; 0 if not given
  sluice::activation activation = sluice::activation::none;  ///< applied to each element
  operand residual{};                  ///< added after the activation; 0 if not given
  layout new_c = layout::row_major;    ///< how the matrices of C lie in memory if C is not given
  std::optional<element_type> type{};  ///< type of a new C; bf16 if not given

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(
        input("a", &scaled_gemm::a), input("b", &scaled_gemm::b), output("c", &scaled_gemm::c),
        input("a_scale", &scaled_gemm::a_scale), input("b_scale", &scaled_gemm::b_scale),
        parameter("alpha", &scaled_gemm::alpha), parameter("beta", &scaled_gemm::beta),
        input("bias", &scaled_gemm::bias), parameter("activation", &scaled_gemm::activation),
        input("residual", &scaled_gemm::residual), parameter("new_c", &scaled_gemm::new_c),
        parameter("type", &scaled_gemm::type));
  }
};

/// The functions behind `scaled_gemm`.
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<scaled_gemm>);

}  // namespace sluice
