// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/merged_list.hpp"
#include "runtime/blocks/block_record.hpp"

#include <atomic>
#include <cstdint>
#include <functional>

namespace sluice::detail {

/// The use of one block by one launch.
struct recorded_use {
  block_record* record;
  std::uint64_t generation;
  access_kind access;
  bool whole;
  allocation_tag tag;           // for messages, when the block may no longer exist
  std::uint64_t fence_version;  // the version of the uses that the launch waits for
  // Of launches that are preflighted together:
  timeline_point last_write{};       // the unfinished last write, if its outcome matters
  std::uint32_t users = 0;           // the launches whose use is not published yet
  std::uint32_t writer = no_launch;  // the last one that writes the block
  static constexpr std::uint32_t no_launch = ~std::uint32_t{0};

  /// Whether the block has been freed. Certain under a lease, otherwise only if true.
  [[nodiscard]] bool stale() const noexcept {
    return record->lease.dying() ||
           record->generation.load(std::memory_order_relaxed) != generation;
  }
};

/// The rules of a list with one use for each block, in address order of the records.
struct one_use_per_block {
  [[nodiscard]] static bool before(const recorded_use& a, const recorded_use& b) noexcept {
    if (a.record != b.record) return std::less<>()(a.record, b.record);
    return a.generation < b.generation;
  }
  [[nodiscard]] static bool same(const recorded_use& a, const recorded_use& b) noexcept {
    return a.record == b.record && a.generation == b.generation;
  }
  static void absorb(recorded_use& target, const recorded_use& source) noexcept {
    // A merged use is whole only if both were.
    target.whole = target.whole && source.whole;
    target.access = static_cast<access_kind>(static_cast<unsigned>(target.access) |
                                             static_cast<unsigned>(source.access));
  }
};

using recorded_uses = merged_list<recorded_use, one_use_per_block, 8>;

}  // namespace sluice::detail
