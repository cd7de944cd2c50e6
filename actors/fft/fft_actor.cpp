// SPDX-License-Identifier: Apache-2.0

#include <sluice/actors/fft.hpp>
#include <sluice/actors/spawn_operations.hpp>

namespace sluice {

fft_actor spawn_fft(caf::actor_system& system, std::shared_ptr<device_service> service,
                    std::shared_ptr<kernel_trace> trace) {
  return spawn_operations<fft, rfft, irfft>(system, "sluice.fft", std::move(service),
                                            std::move(trace),
                                            {&descriptor_of(operation_type<fft>{})});
}

}  // namespace sluice
