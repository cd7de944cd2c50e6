// SPDX-License-Identifier: Apache-2.0
#include "examples/guide/index_of_max.hpp"

template struct sluice::index_kernel<index_of_max_body>;
