// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/gemm_functions.hpp"
#include "operations/dnn/recurrent_functions.hpp"
#include "operations/elementwise/loaded_kernels_cuda.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sluice::cuda {
namespace {

using namespace operations;

void require_launch(int status) {
  check(static_cast<cudaError_t>(status));
}

}  // namespace

void prepare_recurrent(lane_libraries& libraries) {
  prepare_blas(libraries);
  (void)libraries.get<loaded_kernels<load_recurrent>>();
}

void enqueue_recurrent(lane_libraries& libraries, const recurrent_layer_call& call,
                       const recurrent_addresses& addresses, void* workspace) {
  const current_device_scope current(libraries.runtime().device());
  auto* const stream = libraries.stream().native();
  const auto layout = gpu_layout(call);
  auto* const scratch = static_cast<std::byte*>(workspace);
  const auto bytes = bytes_of(call.type);
  recurrent_memory memory;
  memory.gates = scratch + layout.gates;
  memory.gate_distance = layout.steps * call.batch * call.rows();
  memory.sums = scratch + layout.sums;
  memory.h = scratch + layout.h;
  memory.c = scratch + layout.c;
  memory.reset = scratch + layout.reset;

  const auto multiply_inputs = [&](const recurrent_chunk& chunk, std::int64_t d) {
    const auto first_row = chunk.first_time(call, d) * call.batch;
    const bool multiplies = call.input != 0;
    const product_launch launch(
        multiplies ? static_cast<const std::byte*>(addresses.w) + d * call.w.distance * bytes
                   : nullptr,
        multiplies ? static_cast<const std::byte*>(addresses.x) + first_row * call.x_leading * bytes
                   : nullptr,
        scratch + layout.gates + d * memory.gate_distance * call.sum_bytes());
    enqueue_gemm(libraries, input_product(call, chunk.count * call.batch, layout.gate_leading),
                 launch.get());
  };
  const auto multiply_states = [&](const void* states, const row_range& rows) {
    const product_launch launch(
        static_cast<const std::byte*>(addresses.r) + row_offset(call, rows.first) * bytes, states,
        scratch + layout.sums + rows.first * call.sum_bytes());
    enqueue_gemm(libraries,
                 state_product(call, rows, layout.sum_leading, call.batch * layout.sum_leading),
                 launch.get());
  };

  require_launch(launch_recurrent_begin(call, addresses, memory, stream));
  for (std::int64_t first = 0; first < call.steps; first += layout.steps) {
    const recurrent_chunk chunk{first, std::min(layout.steps, call.steps - first)};
    for (std::int64_t d = 0; d < call.directions; ++d) multiply_inputs(chunk, d);
    for (std::int64_t i = 0; i < chunk.count; ++i) {
      multiply_states(memory.h, first_rows(call));
      if (call.multiplies_twice()) {
        require_launch(launch_recurrent_reset(call, addresses, memory, chunk, i, stream));
        multiply_states(memory.reset, second_rows(call));
      }
      require_launch(launch_recurrent_step(call, addresses, memory, chunk, i, stream));
    }
  }
  require_launch(launch_recurrent_end(call, addresses, memory, stream));
}

}  // namespace sluice::cuda
