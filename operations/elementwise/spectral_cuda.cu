// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/map_calls.hpp"
#include "operations/elementwise/map_kernel.cuh"
#include "operations/elementwise/spectral_calls.hpp"

namespace sluice::operations {

template int load_map<power_call>();
template int load_map<decibel_call>();
template int load_map<frames_call>();
template int launch_map(const power_call&, const map_addresses&, native_stream*);
template int launch_map(const decibel_call&, const map_addresses&, native_stream*);
template int launch_map(const frames_call&, const map_addresses&, native_stream*);

}  // namespace sluice::operations
