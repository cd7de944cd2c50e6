// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/map_calls.hpp"
#include "operations/elementwise/map_kernel.cuh"

namespace sluice::operations {

template int load_map<binary_call>();
template int launch_map(const binary_call&, const map_addresses&, native_stream*);

}  // namespace sluice::operations
