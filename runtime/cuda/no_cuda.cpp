// SPDX-License-Identifier: Apache-2.0
// The CUDA device of builds without the CUDA toolkit.
#include "runtime/cuda/cuda_device.hpp"

namespace sluice::cuda {

int device_count() noexcept {
  return 0;
}

std::string why_absent(int) {
  return "this build has no CUDA support";
}

device_info describe(int ordinal) {
  throw error(errc::invalid_argument, why_absent(ordinal));
}

std::shared_ptr<device> open(int ordinal) {
  throw error(errc::invalid_argument, why_absent(ordinal));
}

}  // namespace sluice::cuda
