// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/gemm_functions.hpp"
#include "operations/blas/scaled_gemm_functions.hpp"
#include "operations/core/enumerators.hpp"
#include "operations/cuda_build.hpp"
#include "operations/elementwise/layouts.hpp"

#include <limits>
#include <string>

namespace sluice {
namespace {

using operations::scaled_gemm_call;
using operations::scaled_key;

/// The type of C: that of a parameter, of C, or bf16.
element_type type_of_c(const scaled_gemm& op, const inference& inference) {
  operations::require_type("type", op.type);
  const auto* const c = inference.given(op.c);
  const auto type = op.type ? *op.type : c != nullptr ? c->type : element_type::bf16;
  if (type >= element_type::f16 && type <= element_type::f32) return type;
  throw invalid_argument(
      op.type ? "type" : "c",
      "is " + std::string(to_string(type)) + ", but scaled_gemm computes f16, bf16 and f32");
}

/// Refuses a scale that is not one f32.
void require_scale(const inference& inference, const operand& scale) {
  const auto* const s = inference.given(scale);
  if (s == nullptr) return;
  if (s->type != element_type::f32) {
    throw inference.refusal(scale, "is of type ", s->type, ", but needs f32");
  }
  if (s->size() != 1) {
    throw inference.refusal(scale, "has the shape ", s->shape, ", but needs one element");
  }
}

/// Copies a scale that cuBLASLt would refuse.
void align_scale(inference& inference, const operand& scale) {
  const auto* const s = inference.given(scale);
  if (s != nullptr && s->alignment < operations::fused_alignment) inference.pack(scale);
}

/// The key of products, with the part of the epilogue that cuBLASLt may compute.
scaled_key key_of(const scaled_gemm_call& call, const operations::inferred_epilogue& found) {
  constexpr std::int64_t line = operations::fused_alignment;  // in elements of 8 bits
  const auto& p = call.products;
  scaled_key key{.product = operations::product_key(p),
                 .second_type = static_cast<std::int32_t>(call.second_type)};
  key.product.type = static_cast<std::int32_t>(call.first_type);
  // A sum of f32 loses nothing on its way to the kernel of the epilogue.
  if (p.c_type != element_type::f32 && found.is_aligned) {
    operations::add_fused_part(key.product, p, call.epilogue);
  }
  const auto steps =
      p.k | p.first.leading | p.first.distance | p.second.leading | p.second.distance;
  const bool suits =
      found.products_are_aligned && p.first.transposed && !p.second.transposed &&
      steps % line == 0 && p.count <= std::numeric_limits<std::int32_t>::max() &&
      (call.first_type == element_type::e4m3 || call.second_type == element_type::e4m3);
  key.suits_tensor_cores = suits ? 1 : 0;
  return key;
}

}  // namespace

operations::scaled_gemm_call operations::infer(const scaled_gemm& op, inference& inference) {
  require_enumerator("activation", op.activation, activation::tanh);
  for (const auto* factor : {&op.a, &op.b}) {
    const auto& s = inference.require(*factor);
    if (!is_float8(s.type)) {
      throw inference.refusal(
          *factor, "is of type ", s.type,
          ", but scaled_gemm takes e4m3 and e5m2; cast and quantize convert it");
    }
    require_matrix(inference, *factor, s);
  }
  require_scale(inference, op.a_scale);
  require_scale(inference, op.b_scale);
  scaled_gemm_call call;
  auto& p = call.products;
  p.c_type = type_of_c(op, inference);
  p.type = p.c_type == element_type::bf16 ? element_type::bf16 : element_type::f16;
  p.alpha = static_cast<double>(op.alpha.to<float>("alpha"));
  p.beta = static_cast<double>(op.beta.to<float>("beta"));
  infer_products({op.a, op.b, op.c, op.new_c}, inference, p);
  const auto found = infer_epilogue(
      epilogue_members{op.a, op.b, op.c, op.bias, op.residual, op.activation}, inference, p);
  call.epilogue = found.call;
  if (!p.multiplies) {
    inference.ignore(op.a_scale);
    inference.ignore(op.b_scale);
    return call;
  }
  const auto type_of = [&](bool is_a) {
    return inference.require(is_a ? op.a : op.b).type;
  };
  call.first_type = type_of(!p.swapped);
  call.second_type = type_of(p.swapped);
  call.key = key_of(call, found);
  const bool scales_a = inference.given(op.a_scale) != nullptr;
  const bool scales_b = inference.given(op.b_scale) != nullptr;
  call.key.scales_first = (p.swapped ? scales_b : scales_a) ? 1 : 0;
  call.key.scales_second = (p.swapped ? scales_a : scales_b) ? 1 : 0;
  if (call.key.suits_tensor_cores != 0) {
    for (const auto* scale : {&op.a_scale, &op.b_scale}) align_scale(inference, *scale);
  }
  return call;
}

const operation_descriptor& descriptor_of(operation_type<scaled_gemm>) {
  static const typed_operation_descriptor<scaled_gemm, scaled_gemm_call> descriptor(
      {.name = "scaled_gemm",
       .infer = operations::infer,
       .host = {.library = "OpenBLAS",
                .version = host::blas_version,
                .check = host::check_scaled_gemm},
       .compute = host::compute_scaled_gemm,
       .cuda = {.library = "cuBLAS",
                .version = operations::with_cuda<cuda::blas_version>(),
                .prepare = operations::with_cuda<cuda::prepare_scaled_gemm>(),
                .make_plan = operations::with_cuda<cuda::make_scaled_gemm_plan>()},
       .enqueue = operations::with_cuda<cuda::enqueue_scaled_gemm>(),
       .can_be_captured = true});
  return descriptor;
}

}  // namespace sluice
