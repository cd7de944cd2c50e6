// SPDX-License-Identifier: Apache-2.0
#include "operations/fft/cuda/check_cufft.hpp"
#include "operations/fft/cuda/cufft_plan.hpp"
#include "operations/fft/fft_functions.hpp"
#include "operations/fft/scale_kernel.hpp"
#include "runtime/cuda/check.hpp"
#include "runtime/seam.hpp"

#include <cufft.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>

namespace sluice::cuda {
namespace {

using operations::check_cufft;
using operations::fft_call;

/// A plan for no rows: cuFFT takes no batch of 0.
class empty_fft_plan final : public operation_plan {};

/// Our kernels, loaded.
struct loaded_fft_kernels {
  loaded_fft_kernels(device_runtime& runtime, stream_ref) {
    const current_device_scope current(runtime.device());
    check(static_cast<cudaError_t>(operations::load_scale_kernels()));
  }
};

}  // namespace

std::string fft_version() {
  const auto property = [](libraryPropertyType type) {
    int value = 0;
    check_cufft(cufftGetProperty(type, &value));
    return std::to_string(value);
  };
  return property(MAJOR_VERSION) + '.' + property(MINOR_VERSION) + '.' + property(PATCH_LEVEL);
}

void prepare_fft(lane_libraries& libraries) {
  (void)libraries.get<loaded_fft_kernels>();
}

std::shared_ptr<const operation_plan> make_fft_plan(lane_libraries& libraries,
                                                    const fft_call& call) {
  if (call.key.batch == 0) return std::make_shared<empty_fft_plan>();
  auto& runtime = libraries.runtime();
  const detail::library_call library_scope(runtime.device().id());
  const current_device_scope current(runtime.device());
  return std::make_shared<cufft_plan>(call.key, libraries);
}

void enqueue_fft(lane_libraries& libraries, const fft_call& call, const operation_plan& plan,
                 void* workspace, const void* x, void* y) {
  // cuFFT's input is not const; out of place, one-dimensional transforms only read it.
  static_cast<const cufft_plan&>(plan).enqueue(libraries, call.scale, workspace,
                                               {const_cast<void*>(x), y});
}

void enqueue_ffts(lane_libraries& libraries, const fft_call& call, const operation_plan& plan,
                  void* workspace, std::span<const fft_operands> operands) {
  std::array<cufft_plan::member, operations::most_transforms> members{};
  std::transform(operands.begin(), operands.end(), members.begin(), [](const fft_operands& o) {
    return cufft_plan::member{const_cast<void*>(o.x), o.y};
  });
  static_cast<const cufft_plan&>(plan).enqueue_batch(libraries, call.scale, workspace,
                                                     {members.data(), operands.size()});
}

}  // namespace sluice::cuda
