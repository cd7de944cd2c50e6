// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/driver.hpp"
#include "tests/support/gpu_context.hpp"

#include <gtest/gtest.h>

namespace sluice::test {

bool has_context(int ordinal) {
  using get_state = CUresult(CUdevice, unsigned*, int*);
  auto* const function =
      reinterpret_cast<get_state*>(cuda::find_driver_function("cuDevicePrimaryCtxGetState"));
  unsigned flags = 0;
  int active = -1;
  if (function == nullptr || function(ordinal, &flags, &active) != CUDA_SUCCESS) {
    ADD_FAILURE() << "the driver does not say whether there is a context";
  }
  return active != 0;
}

}  // namespace sluice::test
