// SPDX-License-Identifier: Apache-2.0
#include "actors/dnn/dnn_cuda.hpp"

#include <sluice/runtime/error.hpp>

namespace sluice::cuda {

std::unique_ptr<actors::dnn_library> make_dnn_library(device_runtime&, stream_ref) {
  throw error(errc::unsupported,
              "dnn: this build has no cuDNN, which was not found when it was configured");
}

}  // namespace sluice::cuda
