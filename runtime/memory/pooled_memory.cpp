// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/pooled_memory.hpp"

#include <sluice/runtime/device.hpp>

#include <limits>
#include <new>
#include <tuple>
#include <utility>

namespace sluice::detail {

bool pooled_memory::entry::operator<(const entry& other) const noexcept {
  return std::tie(bytes, reached.stream, reached.ticket) <
         std::tie(other.bytes, other.reached.stream, other.reached.ticket);
}

pooled_memory::free pooled_memory::make(std::size_t bytes) {
  entries one;
  return one.extract(one.insert({bytes, {}}));
}

void pooled_memory::add(free freed, timeline_point reached) noexcept {
  freed.value().reached = reached;
  const std::lock_guard lock(mutex_);
  kept_.insert(std::move(freed));
}

pooled_memory::free pooled_memory::take_for(std::size_t bytes, stream_id stream) noexcept {
  const std::lock_guard lock(mutex_);
  // The oldest entry of the stream. Whichever block of that stream the pool hands out, the entries
  // left are reached no earlier than the blocks left in the pool.
  auto at = kept_.lower_bound({bytes, {stream, 0}});
  if (at != kept_.end() && at->bytes == bytes && at->reached.stream == stream) {
    return kept_.extract(at);
  }
  at = kept_.lower_bound({bytes, {}});
  while (at != kept_.end() && at->bytes == bytes) {
    if (context_.completed(at->reached)) return kept_.extract(at);
    constexpr auto last = std::numeric_limits<std::uint64_t>::max();
    at = kept_.upper_bound({bytes, {at->reached.stream, last}});
  }
  return {};
}

std::size_t pooled_memory::release() noexcept {
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    timeline_points asked;
    const auto has_been_reached = [&](timeline_point point) {
      if (context_.completed(point)) return true;
      if (raise_point(asked, point)) return false;
      try {
        asked.push_back(point);
      } catch (const std::bad_alloc&) {
        // The stream is then queried again.
      }
      context_.look_at(point);
      return context_.completed(point);
    };
    for (auto next = kept_.begin(); next != kept_.end();) {
      const auto freed = next++;
      if (!has_been_reached(freed->reached)) continue;
      bytes += freed->bytes;
      kept_.erase(freed);
    }
  }
  return release(bytes);
}

std::size_t pooled_memory::release(std::size_t bytes) noexcept {
  auto& device = context_.device();
  const auto given = device.trim_async();
  // Memory of a lost device stays charged until the resource is destroyed.
  if (bytes != 0 && !device.lost()) context_.discharge_pooled(bytes);
  return given;
}

}  // namespace sluice::detail
