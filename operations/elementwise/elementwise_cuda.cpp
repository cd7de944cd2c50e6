// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/choice_call.hpp"
#include "operations/elementwise/concatenate_functions.hpp"
#include "operations/elementwise/cumulative_functions.hpp"
#include "operations/elementwise/gather_call.hpp"
#include "operations/elementwise/grid_call.hpp"
#include "operations/elementwise/histogram_functions.hpp"
#include "operations/elementwise/launch_concatenate.hpp"
#include "operations/elementwise/launch_map.hpp"
#include "operations/elementwise/launch_sort.hpp"
#include "operations/elementwise/loaded_kernels_cuda.hpp"
#include "operations/elementwise/map_calls.hpp"
#include "operations/elementwise/map_functions.hpp"
#include "operations/elementwise/pad_call.hpp"
#include "operations/elementwise/quantize_call.hpp"
#include "operations/elementwise/quantize_functions.hpp"
#include "operations/elementwise/range_call.hpp"
#include "operations/elementwise/rearrange_call.hpp"
#include "operations/elementwise/reduce_functions.hpp"
#include "operations/elementwise/resize_pass.hpp"
#include "operations/elementwise/scatter_functions.hpp"
#include "operations/elementwise/sort_functions.hpp"
#include "operations/elementwise/spectral_calls.hpp"
#include "runtime/cuda/check.hpp"
#include "runtime/seam.hpp"

#include <sluice/runtime/device.hpp>

namespace sluice::cuda {

using namespace operations;

template <class Call>
void prepare_map(lane_libraries& libraries) {
  (void)libraries.get<loaded_kernels<load_map<Call>>>();
  if constexpr (requires(Call call) { call.out_of_range; }) {
    (void)libraries.get<detail::error_words_of_lane>();
  }
}
template <class Call>
void enqueue_map(lane_libraries& libraries, const Call& call, const map_addresses& addresses) {
  const current_device_scope current(libraries.runtime().device());
  check(static_cast<cudaError_t>(launch_map(call, addresses, libraries.stream().native())));
}

void prepare_reduce(lane_libraries& libraries) {
  (void)libraries.get<loaded_kernels<load_reduce>>();
}
void enqueue_reduce(lane_libraries& libraries, const reduce_call& call, const void* x, void* y,
                    void* workspace) {
  const current_device_scope current(libraries.runtime().device());
  check(
      static_cast<cudaError_t>(launch_reduce(call, x, y, workspace, libraries.stream().native())));
}
void enqueue_reduced_parts(lane_libraries& libraries, const reduce_call& call,
                           const void* workspace, void* y) {
  const current_device_scope current(libraries.runtime().device());
  check(static_cast<cudaError_t>(
      launch_reduced_parts(call, workspace, y, libraries.stream().native())));
}

void prepare_concatenate(lane_libraries& libraries) {
  (void)libraries.get<loaded_kernels<load_concatenate>>();
}
void enqueue_concatenate(lane_libraries& libraries, const concatenate_call& call,
                         const concatenate_addresses& addresses) {
  const current_device_scope current(libraries.runtime().device());
  check(static_cast<cudaError_t>(launch_concatenate(call, addresses, libraries.stream().native())));
}

void prepare_sort(lane_libraries& libraries) {
  (void)libraries.get<loaded_kernels<load_sort>>();
}
void enqueue_sort(lane_libraries& libraries, const sort_call& call, const sort_addresses& addresses,
                  void* workspace) {
  const current_device_scope current(libraries.runtime().device());
  check(static_cast<cudaError_t>(
      launch_sort(call, addresses, workspace, libraries.stream().native())));
}

void prepare_cumulative(lane_libraries& libraries) {
  (void)libraries.get<loaded_kernels<load_cumulative>>();
}
void enqueue_cumulative(lane_libraries& libraries, const cumulative_call& call, const void* x,
                        void* y, void* workspace) {
  const current_device_scope current(libraries.runtime().device());
  check(static_cast<cudaError_t>(
      launch_cumulative(call, x, y, workspace, libraries.stream().native())));
}

void prepare_scatter(lane_libraries& libraries) {
  (void)libraries.get<loaded_kernels<load_scatter>>();
  (void)libraries.get<detail::error_words_of_lane>();
}
void enqueue_scatter(lane_libraries& libraries, const scatter_work& work,
                     const scatter_addresses& addresses) {
  const current_device_scope current(libraries.runtime().device());
  check(static_cast<cudaError_t>(launch_scatter(work, addresses, libraries.stream().native())));
}

void prepare_dynamic_quantize(lane_libraries& libraries) {
  (void)libraries.get<loaded_kernels<load_value_range>>();
  prepare_map<quantize_call>(libraries);
}
void enqueue_dynamic_quantize(lane_libraries& libraries, const dynamic_quantize_call& call,
                              const dynamic_quantize_addresses& addresses, void* workspace) {
  const current_device_scope current(libraries.runtime().device());
  auto* const stream = libraries.stream().native();
  check(static_cast<cudaError_t>(launch_value_range(call.x, addresses.x, addresses.scale,
                                                    addresses.zero_point, workspace, stream)));
  if (call.x.count == 0) return;
  check(static_cast<cudaError_t>(launch_map(call.elements, addresses.of_elements(), stream)));
}

void prepare_histogram(lane_libraries& libraries) {
  (void)libraries.get<loaded_kernels<load_histogram>>();
}
void enqueue_histogram(lane_libraries& libraries, const histogram_call& call, const void* x,
                       std::int64_t* counts) {
  const current_device_scope current(libraries.runtime().device());
  check(static_cast<cudaError_t>(launch_histogram(call, x, counts, libraries.stream().native())));
}

template void prepare_map<cast_call>(lane_libraries&);
template void prepare_map<copy_call>(lane_libraries&);
template void prepare_map<affine_call>(lane_libraries&);
template void prepare_map<scale_call>(lane_libraries&);
template void prepare_map<binary_call>(lane_libraries&);
template void prepare_map<unary_call>(lane_libraries&);
template void prepare_map<where_call>(lane_libraries&);
template void prepare_map<power_call>(lane_libraries&);
template void prepare_map<decibel_call>(lane_libraries&);
template void prepare_map<frames_call>(lane_libraries&);
template void prepare_map<resize_pass>(lane_libraries&);
template void prepare_map<grid_call>(lane_libraries&);
template void prepare_map<gather_call>(lane_libraries&);
template void prepare_map<pad_call>(lane_libraries&);
template void prepare_map<choice_call>(lane_libraries&);
template void prepare_map<range_call>(lane_libraries&);
template void prepare_map<quantize_call>(lane_libraries&);
template void prepare_map<dequantize_call>(lane_libraries&);
template void prepare_map<reverse_call>(lane_libraries&);
template void prepare_map<reverse_sequence_call>(lane_libraries&);
template void prepare_map<im2col_call>(lane_libraries&);
template void prepare_map<col2im_call>(lane_libraries&);
template void enqueue_map(lane_libraries&, const cast_call&, const map_addresses&);
template void enqueue_map(lane_libraries&, const copy_call&, const map_addresses&);
template void enqueue_map(lane_libraries&, const affine_call&, const map_addresses&);
template void enqueue_map(lane_libraries&, const scale_call&, const map_addresses&);
template void enqueue_map(lane_libraries&, const binary_call&, const map_addresses&);
template void enqueue_map(lane_libraries&, const unary_call&, const map_addresses&);
template void enqueue_map(lane_libraries&, const where_call&, const map_addresses&);
template void enqueue_map(lane_libraries&, const power_call&, const map_addresses&);
template void enqueue_map(lane_libraries&, const decibel_call&, const map_addresses&);
template void enqueue_map(lane_libraries&, const frames_call&, const map_addresses&);
template void enqueue_map(lane_libraries&, const resize_pass&, const map_addresses&);
template void enqueue_map(lane_libraries&, const grid_call&, const map_addresses&);
template void enqueue_map(lane_libraries&, const gather_call&, const map_addresses&);
template void enqueue_map(lane_libraries&, const pad_call&, const map_addresses&);
template void enqueue_map(lane_libraries&, const choice_call&, const map_addresses&);
template void enqueue_map(lane_libraries&, const range_call&, const map_addresses&);
template void enqueue_map(lane_libraries&, const quantize_call&, const map_addresses&);
template void enqueue_map(lane_libraries&, const dequantize_call&, const map_addresses&);
template void enqueue_map(lane_libraries&, const reverse_call&, const map_addresses&);
template void enqueue_map(lane_libraries&, const reverse_sequence_call&, const map_addresses&);
template void enqueue_map(lane_libraries&, const im2col_call&, const map_addresses&);
template void enqueue_map(lane_libraries&, const col2im_call&, const map_addresses&);

}  // namespace sluice::cuda
