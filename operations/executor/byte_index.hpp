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
    range bytes{};
    std::uint64_t number = 0;
    void* request = nullptr;
    const void* use = nullptr;  ///< of the request

   private:
    friend class byte_index;
    struct links {
      entry* previous = nullptr;
      entry* next = nullptr;
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
  [[nodiscard]] entry* add(const range& bytes, std::uint64_t number, void* request,
                           const void* use) {
    if (count_ >= parts_.size()) grow();
    auto* const place = new (memory_->take(sizeof(entry))) entry;
    place->bytes = bytes;
    place->number = number;
    place->request = request;
    place->use = use;
    auto& sizes = sizes_[bytes.is_written ? 1 : 0];
    const auto size = size_of(bytes);
    part_of(*place).append(*place, &entry::in_part);
    sizes.by_size[size].append(*place, &entry::in_size);
    sizes.present |= std::uint64_t{1} << size;
    ++sizes.by_size[size].count;
    for (auto& level : sizes.regions) ++level.count_at(bytes.begin);
    ++count_;
    return place;
  }
  /// Removes a range.
  void remove(entry* place) noexcept {
    auto& sizes = sizes_[place->bytes.is_written ? 1 : 0];
    const auto size = size_of(place->bytes);
    part_of(*place).erase(*place, &entry::in_part);
    sizes.by_size[size].erase(*place, &entry::in_size);
    for (auto& level : sizes.regions) --level.count_at(place->bytes.begin);
    if (--sizes.by_size[size].count == 0) sizes.present &= ~(std::uint64_t{1} << size);
    --count_;
    memory_->give_back(place, sizeof(entry));
  }
  /// The order in which the ranges of one part of memory are visited.
  enum class order : std::uint8_t { oldest_first, newest_first };
  /// Calls `is_wanted` with ranges of requests before `number` that have one of `bytes`, and of
  /// which it or they are written, until that returns true. Returns whether it did. `visits_left`
  /// counts the ranges and parts of memory that are visited; at 0 the function returns true.
  ///@{
  template <class Condition>
  [[nodiscard]] bool any_before(std::uint64_t number, const range& bytes,
                                const Condition& is_wanted, std::size_t& visits_left,
                                order direction = order::oldest_first) const {
    return any(sizes_[1], true, number, bytes, is_wanted, visits_left, direction) ||
           (bytes.is_written &&
            any(sizes_[0], false, number, bytes, is_wanted, visits_left, direction));
  }
  template <class Condition>
  [[nodiscard]] bool any_before(std::uint64_t number, const range& bytes,
                                const Condition& is_wanted) const {
    auto unlimited = ~std::size_t{0};
    return any_before(number, bytes, is_wanted, unlimited);
  }
  ///@}

 private:
  /// Ranges in the order in which they were added, which is that of their numbers.
  struct chain {
    entry* first = nullptr;
    entry* last = nullptr;

    void append(entry& e, entry::links entry::*links) noexcept {
      (e.*links) = {last, nullptr};
      (last != nullptr ? (last->*links).next : first) = &e;
      last = &e;
    }
    void erase(entry& e, entry::links entry::*links) noexcept {
      const auto [previous, next] = e.*links;
      (previous != nullptr ? (previous->*links).next : first) = next;
      (next != nullptr ? (next->*links).previous : last) = previous;
    }
  };
  struct counted_chain : chain {
    std::size_t count = 0;
  };
  /// Counts the ranges that begin in each region of 2^bits bytes. Regions share counters.
  struct region_counts {
    unsigned bits;
    std::array<std::uint32_t, 512> counts{};

    [[nodiscard]] std::uint32_t& count_at(std::uintptr_t address) noexcept {
      return counts[((address >> bits) * 0x9e3779b97f4a7c15U) >> 55U];
    }
    [[nodiscard]] std::uint32_t count_at(std::uintptr_t address) const noexcept {
      return counts[((address >> bits) * 0x9e3779b97f4a7c15U) >> 55U];
    }
  };
  struct access_index {
    std::array<counted_chain, 64> by_size;
    std::array<region_counts, 2> regions{{{26}, {16}}};
    std::uint64_t present = 0;  // bit i: there are ranges of size i
  };

  [[nodiscard]] static unsigned size_of(const range& bytes) noexcept {
    return static_cast<unsigned>(std::bit_width(bytes.end - bytes.begin)) - 1;
  }
  /// The part of memory that an address lies in, among those for ranges of a size.
  [[nodiscard]] static std::uintptr_t part_at(std::uintptr_t address, unsigned size) noexcept {
    return size >= 63 ? 0 : address >> (size + 1);
  }
  /// Parts share chains.
  [[nodiscard]] std::size_t chain_index(std::uintptr_t part, unsigned size,
                                        bool is_written) const noexcept {
    auto hash = part * 0x9e3779b97f4a7c15U + (2 * size + (is_written ? 1 : 0));
    hash = (hash ^ (hash >> 32U)) * 0xd6e8feb86659fd93U;
    return static_cast<std::size_t>(hash >> 32U) & (parts_.size() - 1);
  }
  [[nodiscard]] chain& part_of(const entry& e) noexcept {
    const auto size = size_of(e.bytes);
    return parts_[chain_index(part_at(e.bytes.begin, size), size, e.bytes.is_written)];
  }
  void grow() {
    std::vector<chain> old_parts(std::max<std::size_t>(64, 2 * parts_.size()));
    std::swap(parts_, old_parts);
    for (const auto& part : old_parts) {
      for (auto* next = part.first; next != nullptr;) {
        auto& e = *std::exchange(next, next->in_part.next);
        part_of(e).append(e, &entry::in_part);
      }
    }
  }

  template <class Condition>
  [[nodiscard]] bool any(const access_index& sizes, bool is_written, std::uint64_t number,
                         const range& bytes, const Condition& is_wanted, std::size_t& visits_left,
                         order direction) const {
    const auto is_found = [&](const entry& other) {
      if (--visits_left == 0) return true;
      const bool overlaps = other.bytes.begin < bytes.end && bytes.begin < other.bytes.end;
      return overlaps && other.number < number && other.bytes.is_written == is_written &&
             is_wanted(other);
    };
    const auto any_in = [&](const chain& entries, entry::links entry::*links) {
      if (--visits_left == 0) return true;
      if (direction == order::newest_first) {
        for (const auto* e = entries.last; e != nullptr; e = (e->*links).previous) {
          if (is_found(*e)) return true;
        }
        return false;
      }
      for (const auto* e = entries.first; e != nullptr && e->number < number;
           e = (e->*links).next) {
        if (is_found(*e)) return true;
      }
      return false;
    };
    for (auto bits = sizes.present; bits != 0; bits &= bits - 1) {
      const auto size = static_cast<unsigned>(std::countr_zero(bits));
      const auto first_part = part_at(bytes.begin, size);
      const auto first = first_part - std::min<std::uintptr_t>(first_part, 1);
      const auto last = part_at(bytes.end - 1, size);
      if (last - first >= sizes.by_size[size].count) {
        if (any_in(sizes.by_size[size], &entry::in_size)) return true;
        continue;
      }
      for (auto part = first; part <= last;) {
        if (last - part > few_parts) {
          if (const auto next = next_region(sizes, part, size); next != part) {
            part = next;
            continue;
          }
        }
        if (any_in(parts_[chain_index(part, size, is_written)], &entry::in_part)) return true;
        ++part;
      }
    }
    return false;
  }

  /// The first part behind the region of `part`, if no range begins in it; otherwise `part`.
  [[nodiscard]] static std::uintptr_t next_region(const access_index& sizes, std::uintptr_t part,
                                                  unsigned size) noexcept {
    const auto width = size + 1;
    for (const auto& level : sizes.regions) {
      if (level.bits > width && level.count_at(part << width) == 0) {
        const auto parts_of_region = level.bits - width;
        return ((part >> parts_of_region) + 1) << parts_of_region;
      }
    }
    return part;
  }

  static constexpr std::uintptr_t few_parts = 8;
  detail::owner_memory* memory_;
  std::size_t count_ = 0;
  std::vector<chain> parts_;
  std::array<access_index, 2> sizes_;  // read, and written
};

}  // namespace sluice::operations
