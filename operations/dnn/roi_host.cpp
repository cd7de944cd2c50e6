// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/roi_functions.hpp"
#include "operations/elementwise/host_loop.hpp"

#include <sluice/runtime/error.hpp>

#include <string>

namespace sluice::host {
namespace {

using namespace operations;

/// Refuses batch indices that are out of range.
void require_images(const roi_call& call, const void* indices) {
  const auto& layout = call.layout;
  map_layout<1> regions;
  regions.rank = 0;
  for (int d = 0; d < layout.rank; ++d) {
    if (layout.strides[3][d] == 0) continue;
    regions.shape[regions.rank] = layout.shape[d];
    regions.strides[0][regions.rank++] = layout.strides[3][d];
  }
  if (regions.rank == 0) regions.shape[regions.rank++] = 1;
  for_each_position(regions, [&](const map_position<1>& region) {
    const auto image = load<std::int64_t>(layout.types[3], indices, region.offsets[0]);
    if (image >= 0 && image < call.images) return;
    throw invalid_argument("batch_indices", std::to_string(image) + " is out of range for " +
                                                std::to_string(call.images) + " images");
  });
}

}  // namespace

void compute_roi(const roi_call& call, const map_addresses& addresses) {
  require_images(call, addresses.inputs[2]);
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
