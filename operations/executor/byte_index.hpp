// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/owner_memory.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice::operations {

/// The bytes that numbered requests use, to be searched by address. Not thread-safe.
///
///     auto* const place = index.add({begin, end, true}, number, &request, &use);
///     index.any_before(number, range, [](const byte_index::entry& other) { ... });
///     index.remove(place);
///
/// Ranges are kept by their size, to a power of two, and within a size by the part of memory of
/// twice that size in which they begin. A range that overlaps another one of a known size begins in
/// a part that is near it, so a search visits few others. A search for a long range skips regions
/// of memory in which no short one begins.
class byte_index {
 public:
  /// The addresses [begin, end), at least one, that a request reads or writes.
  struct range {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    bool is_written = false;
  };
  /// A range that has been added.
  struct entry {
    range of{};
    std::uint64_t number = 0;
    void* request = nullptr;
    const void* use = nullptr;  ///< of the request

   private:
    friend class byte_index;
    struct links {
      entry* before = nullptr;
      entry* after = nullptr;
    };
    links in_part{};
    links in_size{};
  };

  /// An index in the memory of an owner.
  explicit byte_index(detail::owner_memory& memory) noexcept : memory_(&memory) {}
  byte_index(const byte_index&) = delete;
  byte_index& operator=(const byte_index&) = delete;
  ~byte_index() {
    for (auto& sizes : sizes_) {
      for (auto& all : sizes.by_size) {
        while (all.first != nullptr) remove(all.first);
      }
    }
  }

  /// Adds a range of a request, whose number is not below that of any range that has been added.
  /// @throws std::bad_alloc; nothing is added then
  [[nodiscard]] entry* add(const range& of, std::uint64_t number, void* request, const void* use) {
    if (count_ >= parts_.size()) grow();
    auto* const made = new (memory_->take(sizeof(entry))) entry;
    made->of = of;
    made->number = number;
    made->request = request;
    made->use = use;
    auto& sizes = sizes_[of.is_written ? 1 : 0];
    const auto size = size_of(of);
    part_of(*made).append(*made, &entry::in_part);
    sizes.by_size[size].append(*made, &entry::in_size);
    sizes.present |= std::uint64_t{1} << size;
    ++sizes.by_size[size].count;
    for (auto& level : sizes.regions) ++level.begun(of.begin);
    ++count_;
    return made;
  }
  /// Removes a range.
  void remove(entry* added) noexcept {
    auto& sizes = sizes_[added->of.is_written ? 1 : 0];
    const auto size = size_of(added->of);
    part_of(*added).take_out(*added, &entry::in_part);
    sizes.by_size[size].take_out(*added, &entry::in_size);
    for (auto& level : sizes.regions) --level.begun(added->of.begin);
    if (--sizes.by_size[size].count == 0) sizes.present &= ~(std::uint64_t{1} << size);
    --count_;
    memory_->give_back(added, sizeof(entry));
  }
  /// The order in which the ranges of one part of memory are visited.
  enum class order : std::uint8_t { oldest_first, newest_first };
  /// Calls `is_wanted` with ranges of requests before `number` that have a byte of `of`, and of
  /// which it or they are written, until that returns true. Returns whether it did. `visits_left`
  /// counts the ranges and parts of memory that are visited; at 0 the function returns true.
  ///@{
  template <class Condition>
  [[nodiscard]] bool any_before(std::uint64_t number, const range& of, const Condition& is_wanted,
                                std::size_t& visits_left,
                                order direction = order::oldest_first) const {
    return any(sizes_[1], true, number, of, is_wanted, visits_left, direction) ||
           (of.is_written && any(sizes_[0], false, number, of, is_wanted, visits_left, direction));
  }
  template <class Condition>
  [[nodiscard]] bool any_before(std::uint64_t number, const range& of,
                                const Condition& is_wanted) const {
    auto unlimited = ~std::size_t{0};
    return any_before(number, of, is_wanted, unlimited);
  }
  ///@}

 private:
  /// Ranges in the order in which they were added, which is that of their numbers.
  struct chain {
    entry* first = nullptr;
    entry* last = nullptr;

    void append(entry& added, entry::links entry::*by) noexcept {
      (added.*by) = {last, nullptr};
      (last != nullptr ? (last->*by).after : first) = &added;
      last = &added;
    }
    void take_out(entry& taken, entry::links entry::*by) noexcept {
      const auto [before, after] = taken.*by;
      (before != nullptr ? (before->*by).after : first) = after;
      (after != nullptr ? (after->*by).before : last) = before;
    }
  };
  struct counted_chain : chain {
    std::size_t count = 0;
  };
  /// Counts the ranges that begin in each region of 2^bits bytes. Regions share counters.
  struct region_counts {
    unsigned bits;
    std::array<std::uint32_t, 512> counts{};

    [[nodiscard]] std::uint32_t& begun(std::uintptr_t address) noexcept {
      return counts[((address >> bits) * 0x9e3779b97f4a7c15U) >> 55U];
    }
    [[nodiscard]] std::uint32_t begun(std::uintptr_t address) const noexcept {
      return counts[((address >> bits) * 0x9e3779b97f4a7c15U) >> 55U];
    }
  };
  struct of_access {
    std::array<counted_chain, 64> by_size;
    std::array<region_counts, 2> regions{{{26}, {16}}};
    std::uint64_t present = 0;  // bit i: there are ranges of size i
  };

  [[nodiscard]] static unsigned size_of(const range& of) noexcept {
    return static_cast<unsigned>(std::bit_width(of.end - of.begin)) - 1;
  }
  /// The part of memory that an address lies in, among those for ranges of a size.
  [[nodiscard]] static std::uintptr_t part(std::uintptr_t address, unsigned size) noexcept {
    return size >= 63 ? 0 : address >> (size + 1);
  }
  /// Parts share chains.
  [[nodiscard]] std::size_t place_of(std::uintptr_t part, unsigned size,
                                     bool is_written) const noexcept {
    auto hash = part * 0x9e3779b97f4a7c15U + (2 * size + (is_written ? 1 : 0));
    hash = (hash ^ (hash >> 32U)) * 0xd6e8feb86659fd93U;
    return static_cast<std::size_t>(hash >> 32U) & (parts_.size() - 1);
  }
  [[nodiscard]] chain& part_of(const entry& of) noexcept {
    const auto size = size_of(of.of);
    return parts_[place_of(part(of.of.begin, size), size, of.of.is_written)];
  }
  void grow() {
    std::vector<chain> before(std::max<std::size_t>(64, 2 * parts_.size()));
    std::swap(parts_, before);
    for (auto& one : before) {
      for (auto* at = one.first; at != nullptr;) {
        auto& moved = *std::exchange(at, at->in_part.after);
        part_of(moved).append(moved, &entry::in_part);
      }
    }
  }

  template <class Condition>
  [[nodiscard]] bool any(const of_access& sizes, bool is_written, std::uint64_t number,
                         const range& of, const Condition& is_wanted, std::size_t& visits_left,
                         order direction) const {
    const auto is_found = [&](const entry& other) {
      if (--visits_left == 0) return true;
      const bool overlaps = other.of.begin < of.end && of.begin < other.of.end;
      return overlaps && other.number < number && other.of.is_written == is_written &&
             is_wanted(other);
    };
    const auto any_in = [&](const chain& all, entry::links entry::*by) {
      if (--visits_left == 0) return true;
      if (direction == order::newest_first) {
        for (const auto* at = all.last; at != nullptr; at = (at->*by).before) {
          if (is_found(*at)) return true;
        }
        return false;
      }
      for (const auto* at = all.first; at != nullptr && at->number < number; at = (at->*by).after) {
        if (is_found(*at)) return true;
      }
      return false;
    };
    for (auto left = sizes.present; left != 0; left &= left - 1) {
      const auto size = static_cast<unsigned>(std::countr_zero(left));
      const auto first_part = part(of.begin, size);
      const auto first = first_part - std::min<std::uintptr_t>(first_part, 1);
      const auto last = part(of.end - 1, size);
      if (last - first >= sizes.by_size[size].count) {
        if (any_in(sizes.by_size[size], &entry::in_size)) return true;
        continue;
      }
      for (auto at = first; at <= last;) {
        if (last - at > few_parts) {
          if (const auto next = next_region(sizes, at, size); next != at) {
            at = next;
            continue;
          }
        }
        if (any_in(parts_[place_of(at, size, is_written)], &entry::in_part)) return true;
        ++at;
      }
    }
    return false;
  }

  /// The first part behind the region of `at`, if no range begins in that region; otherwise `at`.
  [[nodiscard]] static std::uintptr_t next_region(const of_access& sizes, std::uintptr_t at,
                                                  unsigned size) noexcept {
    const auto width = size + 1;
    for (const auto& level : sizes.regions) {
      if (level.bits > width && level.begun(at << width) == 0) {
        const auto parts_of_region = level.bits - width;
        return ((at >> parts_of_region) + 1) << parts_of_region;
      }
    }
    return at;
  }

  static constexpr std::uintptr_t few_parts = 8;
  detail::owner_memory* memory_;
  std::size_t count_ = 0;
  std::vector<chain> parts_;
  std::array<of_access, 2> sizes_;  // read, and written
};

}  // namespace sluice::operations
