// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/core/runtime_core.hpp"

#include <sluice/runtime/gpu_ref.hpp>

#include <mutex>
#include <vector>

namespace sluice::test {

/// The uses that a block has recorded at one moment.
struct observed_uses {
  timeline_point last_write;
  std::vector<timeline_point> all;  ///< the points that a free would wait for
  std::uint64_t version = 0;        ///< the number of publications
  detail::use_state::outcome outcome = detail::use_state::outcome::may_fail;  ///< of the last write

  [[nodiscard]] bool holds(timeline_point point) const {
    for (const auto& p : all) {
      if (p == point) return true;
    }
    return false;
  }
};

inline observed_uses uses_of(const block_ref& block) {
  auto& record = *detail::block_record::of(block);
  timeline_points points;
  const std::lock_guard lock(record.lease);
  record.uses.collect_all(points);
  return {record.uses.last_write(),
          {points.begin(), points.end()},
          record.uses.version(),
          record.uses.last_outcome()};
}

template <element T>
observed_uses uses_of(const gpu_ref<T>& ref) {
  return uses_of(ref.block());
}

/// Whether `later` already waits for this ticket of `earlier`. If not, the wait is queued now.
inline bool waits_for(stream_ref later, stream_ref earlier, std::uint64_t ticket) {
  return !detail::timeline::of(later)->wait_for(*detail::timeline::of(earlier), ticket);
}

}  // namespace sluice::test
