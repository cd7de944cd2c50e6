// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/roi_functions.hpp"
#include "operations/elementwise/host_loop.hpp"

namespace sluice::host {
using namespace operations;

void compute_roi(const roi_call& call, const map_addresses& addresses) {
  constexpr double nanoseconds_of_sample = 15;
  const double ratio = call.sampling_ratio > 0 ? static_cast<double>(call.sampling_ratio) : 2;
  (void)visit(call, addresses, [&](const auto& body, const map_layout<6>& layout) {
    for_each_part(layout, {.nanoseconds = nanoseconds_of_sample * ratio * ratio + 20, .least = 1},
                  [&](const map_layout<6>& part, const map_position<6>& origin) {
                    for_each_position(part, origin, [&](const map_position<6>& position) {
                      body(part, position);
                    });
                  });
    return 0;
  });
}

}  // namespace sluice::host
