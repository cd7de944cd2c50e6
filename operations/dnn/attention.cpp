// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/gemm_functions.hpp"
#include "operations/core/enumerators.hpp"
#include "operations/cuda_build.hpp"
#include "operations/dnn/attention_functions.hpp"
#include "operations/elementwise/layouts.hpp"

#include <sluice/operations/attention.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

namespace sluice {
namespace {

/// The call of an attention, as the limits and traces see it.
struct attention_operation_call : operations::attention_call {
  [[nodiscard]] launch_facts facts() const noexcept {
    const auto rows =
        static_cast<double>(batch) * static_cast<double>(heads) * static_cast<double>(queries);
    // A score takes the time of some products.
    constexpr double products_of_score = 16;
    const auto products =
        rows * static_cast<double>(keys) *
        (static_cast<double>(key_size) + static_cast<double>(value_size) + products_of_score);
    return {.sizes = {batch * heads, queries, keys, key_size},
            .work = work_of_products(products) + work_of_parts * rows};
  }
};

/// Refuses an operand that has not the shape `expected`.
void require_heads(const inference& inference, const operand& operand, const tensor_spec& s,
                   const extents& expected) {
  if (s.shape == expected) return;
  throw inference.refusal(operand, "has the shape ", s.shape, ", but must have the shape ",
                          expected);
}

void require_four_dimensions(const inference& inference, const operand& operand,
                             const tensor_spec& s) {
  if (s.rank() == 4) return;
  throw inference.refusal(operand, "has the shape ", s.shape,
                          ", but must have 4 dimensions: batch, heads, sequence, elements");
}

float scale_of(double scale, std::int64_t key_size) {
  const auto rounded = static_cast<float>(scale);
  if (!std::isfinite(rounded)) {
    throw invalid_argument("scale", "is " + std::to_string(scale) + ", but must be finite");
  }
  if (scale != 0) return rounded;
  return key_size == 0 ? 1 : static_cast<float>(1 / std::sqrt(static_cast<double>(key_size)));
}

void copy_strides(const extents& strides, std::int64_t* target) {
  std::copy_n(strides.begin(), 4, target);
}

attention_operation_call infer_attention(const attention& op, inference& inference) {
  const auto& q = inference.require(op.q);
  if (q.type != element_type::f16 && q.type != element_type::bf16 && q.type != element_type::f32) {
    throw inference.refusal(op.q, "is of type ", q.type, ", but attention takes f16, bf16 and f32");
  }
  const auto& k = inference.require(op.k);
  const auto& v = inference.require(op.v);
  operations::require_same_type(inference, op.k, k, q.type, "q");
  operations::require_same_type(inference, op.v, v, q.type, "q");
  require_four_dimensions(inference, op.q, q);
  require_four_dimensions(inference, op.k, k);
  require_four_dimensions(inference, op.v, v);
  require_heads(inference, op.k, k, {q.shape[0], k.shape[1], k.shape[2], q.shape[3]});
  require_heads(inference, op.v, v, {q.shape[0], k.shape[1], k.shape[2], v.shape[3]});
  const bool divides = k.shape[1] == 0 ? q.shape[1] == 0 : q.shape[1] % k.shape[1] == 0;
  if (!divides) {
    throw inference.refusal(op.k, "has ", std::to_string(k.shape[1]),
                            " heads, which do not divide the ", std::to_string(q.shape[1]),
                            " heads of q");
  }
  operations::require_enumerator("causal", op.causal, causal_mask::bottom_right);
  for (const auto* operand : {&op.q, &op.k, &op.v}) inference.couple_from(*operand, 1);
  attention_operation_call call;
  call.batch = q.shape[0];
  call.heads = q.shape[1];
  call.sharing = std::max<std::int64_t>(k.shape[1] == 0 ? 1 : q.shape[1] / k.shape[1], 1);
  call.queries = q.shape[2];
  call.keys = k.shape[2];
  call.key_size = q.shape[3];
  call.value_size = v.shape[3];
  call.scale = scale_of(op.scale, call.key_size);
  call.type = operations::storage_of(q.type);
  call.is_causal = op.causal != causal_mask::none;
  call.diagonal = op.causal == causal_mask::bottom_right ? call.keys - call.queries : 0;
  if (const auto* mask = inference.given(op.mask)) {
    if (mask->type != element_type::boolean && mask->type != q.type) {
      throw inference.refusal(op.mask, "is of type ", mask->type, ", but must be boolean or ",
                              q.type, ", as q is");
    }
    const extents shape{q.shape[0], q.shape[1], q.shape[2], k.shape[2]};
    copy_strides(operations::broadcast_strides(inference, op.mask, *mask, shape), call.mask);
    call.mask_type = operations::storage_of(mask->type);
    call.has_mask = true;
  }
  const auto& y = inference.result(op.y, q.type, {q.shape[0], q.shape[1], q.shape[2], v.shape[3]});
  copy_strides(q.strides, call.q);
  copy_strides(k.strides, call.k);
  copy_strides(v.strides, call.v);
  copy_strides(y.strides, call.y);
  if (y.size() == 0) {
    for (const auto& u : inference.uses()) inference.ignore(*u.operand.value);
    call.batch = 0;
  } else if (call.keys == 0) {
    for (const auto* operand : {&op.q, &op.k, &op.v, &op.mask}) inference.ignore(*operand);
  } else if (call.key_size == 0) {
    inference.ignore(op.q);
    inference.ignore(op.k);
  }
  return call;
}

operations::attention_addresses addresses_of(const launch_of<attention>& launch) {
  return {launch.get<const void>(&attention::q), launch.get<const void>(&attention::k),
          launch.get<const void>(&attention::v), launch.get<const void>(&attention::mask),
          launch.get<void>(&attention::y)};
}
void compute_heads(const attention_operation_call& call, const launch_of<attention>& launch) {
  if (call.batch > 0) host::compute_attention(call, addresses_of(launch));
}
void enqueue_heads(lane_libraries& libraries, const attention_operation_call& call,
                   const launch_of<attention>& launch) {
  if (call.batch > 0) cuda::enqueue_attention(libraries, call, addresses_of(launch));
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<attention>) {
  static const typed_operation_descriptor<attention, attention_operation_call> descriptor(
      {.name = "attention",
       .infer = infer_attention,
       .host = {.library = "OpenBLAS", .version = host::blas_version},
       .compute = compute_heads,
       .cuda = {.library = "sluice", .prepare = operations::with_cuda<cuda::prepare_attention>()},
       .enqueue = operations::with_cuda<enqueue_heads>(),
       .can_be_captured = true});
  return descriptor;
}

}  // namespace sluice
