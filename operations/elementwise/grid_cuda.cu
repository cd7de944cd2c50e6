// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/grid_call.hpp"
#include "operations/elementwise/map_kernel.cuh"

namespace sluice::operations {

// Kernels differ by mode and number of axes, and not by all element types.
template <>
int load_map<grid_call>() {
  int status = 0;
  for (const auto type : {storage::f32, storage::f64}) {
    for (int axes = 1; axes <= grid_call::max_axes; ++axes) {
      for (const auto mode : {grid_mode::nearest, grid_mode::linear, grid_mode::cubic}) {
        grid_call call{};
        call.layout.types[1] = type;
        call.axis_count = axes;
        call.mode = mode;
        if (status == 0) status = visit(call, map_addresses{}, map_loader{});
      }
    }
  }
  return status;
}
template int launch_map(const grid_call&, const map_addresses&, native_stream*);

}  // namespace sluice::operations
