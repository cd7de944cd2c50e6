// SPDX-License-Identifier: Apache-2.0
// The GPUs of this machine, before one is opened.
#include "runtime/cuda/check.hpp"
#include "runtime/cuda/cuda_device.hpp"

#include <cuda_runtime_api.h>

#include <string>

namespace sluice::cuda {
namespace {

struct device_query {
  int count = 0;
  cudaError_t status = cudaSuccess;
};

const device_query& devices() noexcept {
  static const device_query result = [] {
    device_query q;
    q.status = cudaGetDeviceCount(&q.count);
    if (q.status != cudaSuccess) {
      q.count = 0;
      (void)cudaGetLastError();
    }
    return q;
  }();
  return result;
}

/// "13.0" for 13000.
std::string version_text(int version) {
  return std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}

}  // namespace

int device_count() noexcept {
  return devices().count;
}

std::string why_absent(int ordinal) {
  const auto& query = devices();
  if (query.status == cudaErrorInsufficientDriver) {
    // The CUDA runtime also returns this status if there is no driver at all.
    int supported = 0;
    int required = 0;
    if (cudaDriverGetVersion(&supported) != cudaSuccess || supported == 0) {
      (void)cudaGetLastError();
      return "no GPU or no NVIDIA driver on this machine";
    }
    (void)cudaRuntimeGetVersion(&required);
    return "no usable GPU: the NVIDIA driver supports CUDA " + version_text(supported) +
           ", but CUDA " + version_text(required) + " is needed";
  }
  if (query.status != cudaSuccess && query.status != cudaErrorNoDevice) {
    return std::string("no usable GPU: ") + cudaGetErrorString(query.status);
  }
  if (query.count == 0) return "no GPU on this machine";
  return "no GPU " + std::to_string(ordinal) + "; the number of GPUs is " +
         std::to_string(query.count);
}

device_info describe(int ordinal) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal));
  return {{device_kind::cuda, ordinal},
          properties.name,
          properties.totalGlobalMem,
          properties.major * 10 + properties.minor,
          properties.multiProcessorCount};
}

}  // namespace sluice::cuda
