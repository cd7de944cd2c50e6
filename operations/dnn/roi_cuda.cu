// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/roi_call.hpp"
#include "operations/elementwise/map_kernel.cuh"

namespace sluice::operations {

template int load_map<roi_call>();
template int launch_map(const roi_call&, const map_addresses&, native_stream*);

}  // namespace sluice::operations
