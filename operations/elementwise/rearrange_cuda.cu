// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/map_kernel.cuh"
#include "operations/elementwise/rearrange_call.hpp"

namespace sluice::operations {

template int load_map<reverse_call>();
template int load_map<reverse_sequence_call>();
template int load_map<im2col_call>();
template int load_map<col2im_call>();
template int launch_map(const reverse_call&, const map_addresses&, native_stream*);
template int launch_map(const reverse_sequence_call&, const map_addresses&, native_stream*);
template int launch_map(const im2col_call&, const map_addresses&, native_stream*);
template int launch_map(const col2im_call&, const map_addresses&, native_stream*);

}  // namespace sluice::operations
