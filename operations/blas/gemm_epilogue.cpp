// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/gemm_epilogue_call.hpp"
#include "operations/blas/gemm_functions.hpp"
#include "operations/core/enumerators.hpp"
#include "operations/core/rows.hpp"
#include "operations/cuda_build.hpp"
#include "operations/elementwise/layouts.hpp"

#include <cstddef>
#include <limits>
#include <string>
#include <utility>

namespace sluice {
namespace {

using operations::bias_axis;
using operations::blas_matrix;
using operations::epilogue_call;
using operations::fused_key;
using operations::gemm_call;
using operations::gemm_epilogue_call;
using operations::matrix_rank;

bool is_16_bit_type(element_type type) noexcept {
  return type == element_type::f16 || type == element_type::bf16;
}

/// What the bias of a result `c` has numbers for.
/// @param is_swapped the call computes the transpose of C
bias_axis axis_of(const inference& inference, const operand& operand, const tensor_spec& bias,
                  const tensor_spec& c, bool is_swapped) {
  const auto m = c.shape[c.rank() - 2];
  const auto n = c.shape[c.rank() - 1];
  const auto& s = bias.shape;
  const auto is = [&](std::int64_t rows, std::int64_t columns) {
    if (s.size() == 1) return rows == 1 && s[0] == columns;
    return s.size() == matrix_rank && s[0] == rows && s[1] == columns;
  };
  if (is(1, 1)) return bias_axis::all;
  if (is(1, n)) return is_swapped ? bias_axis::row : bias_axis::column;
  if (is(m, 1)) return is_swapped ? bias_axis::column : bias_axis::row;
  throw inference.refusal(operand, "has the shape ", s, ", but needs [", n, "], [1, ", n, "], [", m,
                          ", 1] or one element for c of shape ", c.shape);
}

/// The residual as it is added to a C that is stored by rows or by columns. Packs it if it lies
/// otherwise.
blas_matrix place_residual(inference& inference, const operand& operand, const tensor_spec& c,
                           bool by_rows) {
  const auto& s = inference.require(operand);
  const auto stack = operations::stack_of(c, matrix_rank);
  const auto place = [&]() -> std::optional<blas_matrix> {
    auto matrix = by_rows ? operations::stored_by_rows(s) : operations::stored_by_columns(s);
    const auto distance = operations::distance_of(s, matrix_rank, stack);
    if (!matrix || !distance) return std::nullopt;
    matrix->distance = *distance;
    return matrix;
  };
  if (const auto matrix = place()) return *matrix;
  extents order;
  for (std::size_t d = 0; d < c.rank(); ++d) order.push_back(static_cast<std::int64_t>(d));
  if (!by_rows) std::swap(order[c.rank() - 2], order[c.rank() - 1]);
  inference.pack(operand, c.shape, order);
  return place().value();
}

/// The terms of all sums of a product.
double terms_of(std::int64_t m, std::int64_t n, std::int64_t k) noexcept {
  return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}
/// Whether a gemm of tensors multiplies large matrices of 16 bits. Small products go without a
/// plan, and batches of them are launched together.
bool multiplies_large_16_bit(const gemm& op) noexcept {
  const auto& a = op.a.value();
  const auto& b = op.b.value();
  if (!is_16_bit_type(a.type()) || a.rank() != matrix_rank || b.rank() != matrix_rank) return false;
  return terms_of(a.shape()[0], b.shape()[1], a.shape()[1]) >= operations::min_terms_of_choice;
}

/// The part of an epilogue that cuBLASLt computes with the products; empty if that saves nothing.
fused_key fused_part(const gemm_call& p, const epilogue_call& e) {
  const bool is_16_bit = is_16_bit_type(p.c_type);
  if (!p.multiplies || (!is_16_bit && p.c_type != element_type::f32)) return {};
  if (p.count > std::numeric_limits<std::int32_t>::max()) return {};
  auto key = operations::product_key(p);
  operations::add_fused_part(key, p, e);
  if (key.adds_bias == 0 && key.function == 0 && key.adds_residual == 0) {
    const bool has_choice =
        is_16_bit_type(p.type) && terms_of(p.m, p.n, p.k) >= operations::min_terms_of_choice;
    return has_choice ? key : fused_key{};
  }
  // A part of it saves no time, but a 16-bit sum its rounding.
  if (!is_16_bit && !operations::remaining_epilogue(e, key).is_empty()) return {};
  return key;
}

}  // namespace

operations::fused_key operations::product_key(const gemm_call& p) noexcept {
  return {.m = p.m,
          .n = p.n,
          .k = p.k,
          .count = p.count,
          .first_leading = p.first.leading,
          .first_distance = p.first.distance,
          .second_leading = p.second.leading,
          .second_distance = p.second.distance,
          .c_leading = p.c.leading,
          .c_distance = p.c.distance,
          .type = static_cast<std::int32_t>(p.type),
          .c_type = static_cast<std::int32_t>(p.c_type),
          .first_is_transposed = p.first.transposed ? 1 : 0,
          .second_is_transposed = p.second.transposed ? 1 : 0,
          .may_use_tf32 = p.may_use_tf32 ? 1 : 0};
}

void operations::add_fused_part(fused_key& key, const gemm_call& p,
                                const epilogue_call& e) noexcept {
  // cuBLASLt adds a bias of the rows, then applies a function, or adds a matrix. Its tanh is only
  // good enough for 16 bits.
  const bool adds_bias = e.bias == bias_axis::row;
  const bool has_sum = adds_bias || e.bias == bias_axis::none;
  const bool applies =
      has_sum && (e.function == activation::relu ||
                  (e.function == activation::gelu_tanh && is_16_bit_type(p.c_type)));
  const bool adds_residual =
      has_sum && e.has_residual && e.function == activation::none && p.beta == 0.0;
  key.adds_bias = adds_bias ? 1 : 0;
  key.function = applies ? static_cast<std::int32_t>(e.function) : 0;
  key.adds_residual = adds_residual ? 1 : 0;
  if (!adds_residual) return;
  key.residual_leading = e.residual_leading;
  key.residual_distance = e.residual_distance;
}

operations::inferred_epilogue operations::infer_epilogue(const epilogue_members& op,
                                                         inference& inference, const gemm_call& p) {
  const auto& c = inference.require(op.c);
  const auto* const bias = inference.given(op.bias);
  const auto* const residual = inference.given(op.residual);
  inferred_epilogue result;
  auto& e = result.call;
  if (bias != nullptr) {
    require_same_type(inference, op.bias, *bias, p.c_type, "c");
    e.bias = axis_of(inference, op.bias, *bias, c, p.swapped);
  }
  if (residual != nullptr) {
    require_same_type(inference, op.residual, *residual, p.c_type, "c");
    if (residual->shape != c.shape) {
      throw inference.refusal(op.residual, "has the shape ", residual->shape, ", but c has ",
                              c.shape);
    }
  }
  if (c.size() == 0) {
    inference.ignore(op.bias);
    inference.ignore(op.residual);
    return result;
  }
  e.rows = p.m;
  e.columns = p.n;
  e.count = p.count;
  e.leading = p.c.leading;
  e.distance = p.c.distance;
  e.type = storage_of(p.c_type);
  e.function = op.activation;
  if (!p.multiplies) {
    e.factor[0] = p.beta.real();
    e.factor[1] = p.beta.imag();
  }
  const auto is_aligned = [](const tensor_spec& s) {
    return s.alignment >= fused_alignment;
  };
  if (bias != nullptr) inference.make_contiguous(op.bias);
  if (residual != nullptr) {
    const auto matrix = place_residual(inference, op.residual, c, p.swapped);
    e.has_residual = true;
    e.residual_leading = matrix.leading;
    e.residual_distance = matrix.distance;
  }
  result.products_are_aligned =
      is_aligned(c) && is_aligned(inference.require(op.a)) && is_aligned(inference.require(op.b));
  result.is_aligned = result.products_are_aligned && (bias == nullptr || is_aligned(*bias)) &&
                      (residual == nullptr || is_aligned(*residual));
  return result;
}

operations::gemm_epilogue_call operations::infer_epilogue(const gemm& op, inference& inference) {
  require_enumerator("activation", op.activation, activation::tanh);
  gemm_epilogue_call call{.products = infer(op, inference)};
  const auto& p = call.products;
  if (p.is_integer()) {
    throw invalid_argument(op.bias       ? "bias"
                           : op.residual ? "residual"
                                         : "activation",
                           "is given, but a and b are integers");
  }
  if (op.activation != activation::none && is_complex(p.c_type)) {
    throw invalid_argument("activation",
                           "is given, but c is of type " + std::string(to_string(p.c_type)));
  }
  const auto found = infer_epilogue(
      epilogue_members{op.a, op.b, op.c, op.bias, op.residual, op.activation}, inference, p);
  call.epilogue = found.call;
  if (found.is_aligned) call.key = fused_part(p, found.call);
  return call;
}

const operation_descriptor& descriptor_of(const gemm& operation) {
  static const typed_operation_descriptor<gemm, gemm_epilogue_call> descriptor(
      {.name = "gemm",
       .infer = operations::infer_epilogue,
       .host = {.library = "OpenBLAS",
                .version = host::blas_version,
                .check = host::check_gemm_epilogue},
       .compute = host::compute_gemm_epilogue,
       .cuda = {.library = "cuBLAS",
                .version = operations::with_cuda<cuda::blas_version>(),
                .prepare = operations::with_cuda<cuda::prepare_gemm_epilogue>(),
                .make_plan = operations::with_cuda<cuda::make_gemm_epilogue_plan>()},
       .enqueue = operations::with_cuda<cuda::enqueue_gemm_epilogue>(),
       .can_be_captured = true});
  const bool has_epilogue =
      operation.bias || operation.residual || operation.activation != activation::none;
  return has_epilogue || multiplies_large_16_bit(operation) ? descriptor
                                                            : descriptor_of(operation_type<gemm>());
}

}  // namespace sluice
