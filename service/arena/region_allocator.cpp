// SPDX-License-Identifier: Apache-2.0
#include "service/arena/region_allocator.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace sluice::service {

region_allocator::region_allocator(std::uint64_t begin, std::uint64_t bytes) : capacity_(bytes) {
  if (begin % alignment != 0 || bytes % alignment != 0) {
    throw std::invalid_argument("a range of regions that is not aligned");
  }
  if (bytes == 0) return;
  regions_.emplace(begin, region{.bytes = bytes});
  free_.emplace(bytes, begin);
}

std::optional<std::uint64_t> region_allocator::allocate(std::uint64_t bytes) {
  if (bytes > capacity_) return std::nullopt;
  bytes = std::max(alignment, (bytes + alignment - 1) / alignment * alignment);

  const std::lock_guard lock(mutex_);
  const auto found = free_.lower_bound({bytes, 0});
  if (found == free_.end()) return std::nullopt;
  const auto [free_bytes, offset] = *found;

  // What may throw comes first.
  free_regions rest;
  if (free_bytes > bytes) {
    rest.emplace(free_bytes - bytes, offset + bytes);
    regions_.emplace(offset + bytes, region{.bytes = free_bytes - bytes});
  }
  auto& taken = regions_.find(offset)->second;
  taken.bytes = bytes;
  taken.free_node = free_.extract(found);
  free_.merge(rest);
  bytes_in_use_ += bytes;
  return offset;
}

void region_allocator::deallocate(std::uint64_t offset) {
  const std::lock_guard lock(mutex_);
  auto freed = regions_.find(offset);
  if (freed == regions_.end() || freed->second.free_node.empty()) {
    throw std::invalid_argument("no region in use has this offset");
  }
  bytes_in_use_ -= freed->second.bytes;
  auto node = std::move(freed->second.free_node);

  const auto next = std::next(freed);
  if (next != regions_.end() && next->second.free_node.empty()) {
    free_.erase({next->second.bytes, next->first});
    freed->second.bytes += next->second.bytes;
    regions_.erase(next);
  }
  if (freed != regions_.begin() && std::prev(freed)->second.free_node.empty()) {
    const auto previous = std::prev(freed);
    free_.erase({previous->second.bytes, previous->first});
    previous->second.bytes += freed->second.bytes;
    regions_.erase(freed);
    freed = previous;
  }
  node.value() = {freed->second.bytes, freed->first};
  free_.insert(std::move(node));
}

std::uint64_t region_allocator::bytes_in_use() const {
  const std::lock_guard lock(mutex_);
  return bytes_in_use_;
}

}  // namespace sluice::service
