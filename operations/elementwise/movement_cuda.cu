// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/gather_call.hpp"
#include "operations/elementwise/map_kernel.cuh"

namespace sluice::operations {

template int load_map<gather_call>();
template int launch_map(const gather_call&, const map_addresses&, native_stream*);

}  // namespace sluice::operations
