// SPDX-License-Identifier: Apache-2.0
#include "runtime/timelines/timeline.hpp"

#include <sluice/runtime/error.hpp>
#include <sluice/runtime/memory_resource.hpp>

namespace sluice {

point_reservation::point_reservation(stream_ref stream) {
  if (!stream)
    throw error(errc::stream_misuse, "stream: no stream was given; there is no default stream");
  detail::timeline::of(stream)->reserve();
  timeline_ = detail::timeline::of(stream);
}

void point_reservation::give_back() noexcept {
  timeline_->unreserve();
}

}  // namespace sluice
