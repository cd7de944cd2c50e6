// SPDX-License-Identifier: Apache-2.0
#include "examples/own_operation/saxpy.hpp"

template void sluice::launch_for_each_index(std::size_t, const saxpy_body&, native_stream*);
