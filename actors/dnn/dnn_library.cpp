// SPDX-License-Identifier: Apache-2.0
#include "actors/dnn/dnn_library.hpp"

#include "actors/dnn/dnn_cuda.hpp"
#include "actors/dnn/dnn_host.hpp"

#include <sluice/runtime/error.hpp>

namespace sluice::actors {

std::unique_ptr<dnn_library> make_dnn_library(device_runtime& runtime, stream_ref stream) {
  const device_id id = runtime.device().id();
  switch (id.kind) {
    case device_kind::host:
      return host::make_dnn_library(runtime, stream);
    case device_kind::cuda:
      return cuda::make_dnn_library(runtime, stream);
  }
  throw error(errc::unsupported, "there is no dnn library for device " + to_string(id));
}

}  // namespace sluice::actors
