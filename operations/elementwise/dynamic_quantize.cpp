// SPDX-License-Identifier: Apache-2.0
#include "operations/cuda_build.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/quantize_functions.hpp"
#include "operations/elementwise/workspace_plan.hpp"

#include <sluice/operations/quantization.hpp>

#include <algorithm>
#include <cstdint>

namespace sluice {
namespace {

/// The call, as traces see it.
struct dynamic_quantize_launch : operations::dynamic_quantize_call {
  [[nodiscard]] launch_facts facts() const noexcept {
    return {.sizes = {elements.layout.count}, .commands = 3};
  }
};

dynamic_quantize_launch infer_dynamic_quantize(const dynamic_quantize& op, inference& inference) {
  const auto& x = inference.require(op.x);
  if (!operations::is_floating_point(x.type) || x.type == element_type::f64) {
    throw inference.refusal(op.x, "is of type ", x.type,
                            ", but must be f16, bf16 or f32; cast converts");
  }
  inference.couple_from(op.x, 0);
  const auto& y = inference.result(op.y, element_type::u8, x.shape, operations::memory_order(x));
  (void)inference.result(op.scale, element_type::f32, {});
  (void)inference.result(op.zero_point, element_type::u8, {});
  auto zeros = x.shape;
  std::fill_n(zeros.data(), zeros.size(), 0);
  dynamic_quantize_launch call;
  call.x = operations::make_layout<1>(x.shape, {x.strides}, {x.type});
  call.elements.layout =
      operations::make_layout<4>(x.shape, {y.strides, x.strides, zeros, zeros},
                                 {element_type::u8, x.type, element_type::f32, element_type::u8});
  if (y.size() == 0) {
    inference.ignore(op.x);
    inference.ignore(op.y);
  }
  return call;
}

operations::dynamic_quantize_addresses dynamic_addresses(
    const launch_of<dynamic_quantize>& launch) {
  return {launch.get<const void>(&dynamic_quantize::x),
          launch.get<std::uint8_t>(&dynamic_quantize::y),
          launch.get<float>(&dynamic_quantize::scale),
          launch.get<std::uint8_t>(&dynamic_quantize::zero_point)};
}
void compute_dynamic(const dynamic_quantize_launch& call,
                     const launch_of<dynamic_quantize>& launch) {
  host::compute_dynamic_quantize(call, dynamic_addresses(launch));
}
void enqueue_dynamic(lane_libraries& libraries, const dynamic_quantize_launch& call,
                     const launch_of<dynamic_quantize>& launch) {
  cuda::enqueue_dynamic_quantize(libraries, call, dynamic_addresses(launch), launch.workspace());
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<dynamic_quantize>) {
  static const typed_operation_descriptor<dynamic_quantize, dynamic_quantize_launch> instance(
      {.name = "dynamic_quantize",
       .infer = infer_dynamic_quantize,
       .host = {.library = "sluice"},
       .compute = compute_dynamic,
       .cuda = {.library = "sluice",
                .prepare = operations::with_cuda<cuda::prepare_dynamic_quantize>(),
                .make_plan = operations::make_workspace_plan<dynamic_quantize_launch>},
       .enqueue = operations::with_cuda<enqueue_dynamic>(),
       .can_be_captured = true});
  return instance;
}

}  // namespace sluice
