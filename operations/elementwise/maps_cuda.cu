// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/map_calls.hpp"
#include "operations/elementwise/map_kernel.cuh"

namespace sluice::operations {

template int load_map<cast_call>();
template int load_map<copy_call>();
template int load_map<affine_call>();
template int load_map<scale_call>();
template int load_map<where_call>();
template int launch_map(const cast_call&, const map_addresses&, native_stream*);
template int launch_map(const copy_call&, const map_addresses&, native_stream*);
template int launch_map(const affine_call&, const map_addresses&, native_stream*);
template int launch_map(const scale_call&, const map_addresses&, native_stream*);
template int launch_map(const where_call&, const map_addresses&, native_stream*);

}  // namespace sluice::operations
