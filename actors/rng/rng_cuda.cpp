// SPDX-License-Identifier: Apache-2.0
#include "actors/rng/philox.hpp"
#include "actors/rng/rng_kernels.hpp"
#include "actors/rng/rng_libraries.hpp"
#include "runtime/cuda/check.hpp"

#include <sluice/runtime/device.hpp>

#include <cstdint>

namespace sluice::actors {

namespace {

class cuda_rng_library final : public rng_library {
 public:
  explicit cuda_rng_library(stream_ref stream) : stream_(stream) {
    const current_device_scope current(stream_.device());
    cuda::check(static_cast<cudaError_t>(load_random_kernels()));
  }

  void generate(const random_description& description, void* out) override {
    require_valid(description);
    if (description.count == 0) return;
    const bool single = description.type == element_type::f32;
    switch (description.distribution) {
      case random_distribution::bits:
        return launch<std::uint32_t>(bits_distribution{}, description, out);
      case random_distribution::uniform:
        if (single) return launch<float>(uniform_distribution<float>{}, description, out);
        return launch<double>(uniform_distribution<double>{}, description, out);
      case random_distribution::normal:
        if (single) {
          return launch<float>(normal_distribution<float>{static_cast<float>(description.mean),
                                                          static_cast<float>(description.stddev)},
                               description, out);
        }
        return launch<double>(normal_distribution<double>{description.mean, description.stddev},
                              description, out);
    }
  }

 private:
  template <class T, class Distribution>
  void launch(const Distribution& distribution, const random_description& description, void* out) {
    const current_device_scope current(stream_.device());
    cuda::check(static_cast<cudaError_t>(launch_random(
        distribution, description.seed, description.offset,
        description.offset + (description.count - 1), static_cast<T*>(out), stream_.native())));
  }

  stream_ref stream_;
};

}  // namespace

std::unique_ptr<rng_library> make_cuda_rng_library(stream_ref stream) {
  return std::make_unique<cuda_rng_library>(stream);
}

}  // namespace sluice::actors
