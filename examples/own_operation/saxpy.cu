// SPDX-License-Identifier: Apache-2.0
#include "examples/own_operation/saxpy.hpp"

template struct sluice::index_kernel<saxpy_body>;
