// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/map_kernel.cuh"
#include "operations/elementwise/resize_pass.hpp"

namespace sluice::operations {

// Kernels differ by the number of axes, and not by all element types.
template <>
int load_map<resize_pass>() {
  int status = 0;
  for (const auto type : {storage::f32, storage::f64}) {
    for (int axes = 1; axes <= resize_pass::max_axes; ++axes) {
      resize_pass pass{};
      pass.layout.types[0] = type;
      pass.axis_count = axes;
      if (status == 0) status = visit(pass, map_addresses{}, map_loader{});
    }
  }
  return status;
}
template int launch_map(const resize_pass&, const map_addresses&, native_stream*);

}  // namespace sluice::operations
