// SPDX-License-Identifier: Apache-2.0
#include "runtime/blocks/block_record.hpp"

#include <new>

namespace sluice::detail {

void use_state::begin(timeline_point ready, timeline_points&& inherited) noexcept {
  last_write_ = ready;
  last_write_is_allocation_ = static_cast<bool>(ready);
  last_outcome_ = outcome::may_fail;
  ++version_;
  reads_.clear();
  inherited_ = std::move(inherited);
}

void use_state::begin_written(timeline_point last_write) noexcept {
  begin(last_write, {});
  last_write_is_allocation_ = false;
}

void use_state::collect(access_kind access, stream_id stream,
                        small_vector<hazard_point, 16>& waits) const {
  const bool writes = access != access_kind::read;
  const auto add = [&](timeline_point point, hazard kind) {
    if (point.stream != stream) waits.push_back({point, kind});
  };
  if (last_write_) {
    add(last_write_, last_write_is_allocation_ ? hazard::allocation_ready
                     : writes                  ? hazard::write_after_write
                                               : hazard::read_after_write);
  }
  for (const auto& point : inherited_) add(point, hazard::inherited);
  if (writes) {
    for (const auto& point : reads_) add(point, hazard::write_after_read);
  }
}

void use_state::collect_all(timeline_points& points) const {
  const auto add = [&](timeline_point point) {
    if (!raise_point(points, point)) points.push_back(point);
  };
  if (last_write_) add(last_write_);
  for (const auto& point : reads_) add(point);
  for (const auto& point : inherited_) add(point);
}

timeline_point use_state::publish(access_kind access, timeline_point point,
                                  runtime_context& context, bool may_fail,
                                  timeline_point completed_point) noexcept {
  if (access == access_kind::read) return add(access, point, context, may_fail, completed_point);
  write(point, may_fail);
  reads_.clear();
  inherited_.clear();
  return {};
}

timeline_point use_state::add(access_kind access, timeline_point point, runtime_context& context,
                              bool may_fail, timeline_point completed_point) noexcept {
  if (access == access_kind::read) {
    if (!keep(reads_, point, context, completed_point)) return point;
    ++version_;
    return {};
  }
  if (last_write_ && !keep(inherited_, last_write_, context, completed_point)) return last_write_;
  write(point, may_fail);
  return {};
}

void use_state::write(timeline_point point, bool may_fail) noexcept {
  ++version_;
  last_write_ = point;
  last_write_is_allocation_ = false;
  last_outcome_ = may_fail ? outcome::may_fail : outcome::succeeds;
}

bool use_state::keep(timeline_points& points, timeline_point point, runtime_context& context,
                     timeline_point completed_point) noexcept {
  if (point == completed_point || raise_point(points, point)) return true;
  for (std::size_t i = 0; i < points.size();) {
    if (context.settled(points[i])) {
      points.swap_remove(i);
    } else {
      ++i;
    }
  }
  try {
    points.push_back(point);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace sluice::detail
