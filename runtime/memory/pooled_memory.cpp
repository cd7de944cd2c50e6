// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/pooled_memory.hpp"

#include <sluice/runtime/device.hpp>

#include <limits>
#include <new>
#include <tuple>
#include <utility>

namespace sluice::detail {

bool pooled_memory::entry::operator<(const entry& other) const noexcept {
  return std::tie(bytes, point.stream, point.ticket) <
         std::tie(other.bytes, other.point.stream, other.point.ticket);
}

pooled_memory::free pooled_memory::make(std::size_t bytes) {
  entries nodes;
  return nodes.extract(nodes.insert({bytes, {}}));
}

void pooled_memory::add(free freed, timeline_point point) noexcept {
  freed.value().point = point;
  const std::lock_guard lock(mutex_);
  entries_.insert(std::move(freed));
}

pooled_memory::free pooled_memory::take_for(std::size_t bytes, stream_id stream) noexcept {
  const std::lock_guard lock(mutex_);
  // The oldest entry of the stream. Whichever block of that stream the pool hands out, the entries
  // left are reached no earlier than the blocks left in the pool.
  auto position = entries_.lower_bound({bytes, {stream, 0}});
  if (position != entries_.end() && position->bytes == bytes && position->point.stream == stream) {
    return entries_.extract(position);
  }
  position = entries_.lower_bound({bytes, {}});
  while (position != entries_.end() && position->bytes == bytes) {
    if (context_.completed(position->point)) return entries_.extract(position);
    constexpr auto last = std::numeric_limits<std::uint64_t>::max();
    position = entries_.upper_bound({bytes, {position->point.stream, last}});
  }
  return {};
}

std::size_t pooled_memory::release() noexcept {
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    timeline_points queried;
    const auto has_been_reached = [&](timeline_point point) {
      if (context_.completed(point)) return true;
      if (raise_point(queried, point)) return false;
      try {
        queried.push_back(point);
      } catch (const std::bad_alloc&) {
        // The stream is then queried again.
      }
      context_.look_at(point);
      return context_.completed(point);
    };
    for (auto next = entries_.begin(); next != entries_.end();) {
      const auto freed = next++;
      if (!has_been_reached(freed->point)) continue;
      bytes += freed->bytes;
      entries_.erase(freed);
    }
  }
  return release(bytes);
}

std::size_t pooled_memory::release(std::size_t bytes) noexcept {
  auto& device = context_.device();
  const auto freed_bytes = device.trim_async();
  // Memory of a lost device stays charged until the resource is destroyed.
  if (bytes != 0 && !device.lost()) context_.discharge_pooled(bytes);
  return freed_bytes;
}

}  // namespace sluice::detail
