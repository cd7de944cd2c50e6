// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/map_calls.hpp"
#include "operations/elementwise/map_kernel.cuh"

namespace sluice::operations {

template int load_map<unary_call>();
template int launch_map(const unary_call&, const map_addresses&, native_stream*);

}  // namespace sluice::operations
