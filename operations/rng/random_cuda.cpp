// SPDX-License-Identifier: Apache-2.0
#include "operations/rng/philox.hpp"
#include "operations/rng/random_call.hpp"
#include "operations/rng/rng_kernels.hpp"
#include "runtime/cuda/check.hpp"

#include <sluice/runtime/device.hpp>

#include <cstdint>

namespace sluice::cuda {
namespace {

using operations::random_call;
using operations::random_distribution;

/// Our kernels, loaded.
struct loaded_random_kernels {
  loaded_random_kernels(device_runtime& runtime, stream_ref) {
    const current_device_scope current(runtime.device());
    check(static_cast<cudaError_t>(operations::load_random_kernels()));
  }
};

template <class T, class Distribution>
void launch(const Distribution& distribution, const random_call& call, void* y,
            native_stream* stream) {
  check(static_cast<cudaError_t>(operations::launch_random(distribution, call.seed, call.first,
                                                           call.last, static_cast<T*>(y), stream)));
}

}  // namespace

void prepare_random(lane_libraries& libraries) {
  (void)libraries.get<loaded_random_kernels>();
}

void enqueue_random(lane_libraries& libraries, const random_call& call, void* y) {
  const current_device_scope current(libraries.runtime().device());
  auto* const stream = libraries.stream().native();
  const bool single = call.type == element_type::f32;
  switch (call.distribution) {
    case random_distribution::bits:
      return launch<std::uint32_t>(operations::bits_distribution{}, call, y, stream);
    case random_distribution::uniform:
      if (single) return launch<float>(operations::uniform_distribution<float>{}, call, y, stream);
      return launch<double>(operations::uniform_distribution<double>{}, call, y, stream);
    case random_distribution::normal:
      if (single) {
        return launch<float>(
            operations::normal_distribution<float>{static_cast<float>(call.mean),
                                                   static_cast<float>(call.stddev)},
            call, y, stream);
      }
      return launch<double>(operations::normal_distribution<double>{call.mean, call.stddev}, call,
                            y, stream);
  }
}

}  // namespace sluice::cuda
