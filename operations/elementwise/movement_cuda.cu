// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/choice_call.hpp"
#include "operations/elementwise/gather_call.hpp"
#include "operations/elementwise/map_kernel.cuh"
#include "operations/elementwise/pad_call.hpp"
#include "operations/elementwise/range_call.hpp"

namespace sluice::operations {

template int load_map<gather_call>();
template int load_map<pad_call>();
template int load_map<choice_call>();
template int load_map<range_call>();
template int launch_map(const gather_call&, const map_addresses&, native_stream*);
template int launch_map(const pad_call&, const map_addresses&, native_stream*);
template int launch_map(const choice_call&, const map_addresses&, native_stream*);
template int launch_map(const range_call&, const map_addresses&, native_stream*);

}  // namespace sluice::operations
