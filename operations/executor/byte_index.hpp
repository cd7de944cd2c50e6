// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>

namespace sluice::operations {

/// The bytes that numbered requests use, to be searched by address. Not thread-safe.
///
/// Ranges are kept by their size, to a power of two, and then by their first byte. A range that
/// overlaps another one of a known size begins near it, so a search visits few others.
class byte_index {
 public:
  /// The addresses [begin, end), at least one, that a request reads or writes.
  struct range {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    bool is_written = false;
  };

  /// Adds a range of the request `number`. Equal ranges of one request count once.
  /// @throws std::bad_alloc; nothing is added then
  void add(const range& of, std::uint64_t number) {
    (void)ranges_[of.is_written ? 1 : 0][size_of(of)].emplace(of.begin, number, of.end);
  }
  /// Removes a range that has been added.
  void remove(const range& of, std::uint64_t number) noexcept {
    auto& by_size = ranges_[of.is_written ? 1 : 0];
    const auto found = by_size.find(size_of(of));
    if (found == by_size.end()) return;
    found->second.erase({of.begin, number, of.end});
    if (found->second.empty()) by_size.erase(found);
  }
  /// Calls `is_wanted` with the numbers of requests before `number` that use a byte of `of`, and of
  /// which it or they write it, until that returns true. Returns whether it did.
  template <class Condition>
  [[nodiscard]] bool any_before(std::uint64_t number, const range& of,
                                const Condition& is_wanted) const {
    const auto any = [&](const std::map<int, all_of_size>& by_size) {
      for (const auto& [size, all] : by_size) {
        const auto longest = size >= 63 ? UINTPTR_MAX : std::uintptr_t{2} << size;
        const auto first = of.begin - std::min(of.begin, longest);
        for (auto at = all.lower_bound({first, 0, 0}); at != all.end();) {
          const auto [begin, other, end] = *at;
          if (begin >= of.end) break;
          if (other >= number) {  // those that begin there are in the order of their numbers
            at = all.lower_bound({begin + 1, 0, 0});
          } else {
            if (end > of.begin && is_wanted(other)) return true;
            ++at;
          }
        }
      }
      return false;
    };
    return any(ranges_[1]) || (of.is_written && any(ranges_[0]));
  }

 private:
  using all_of_size = std::set<std::tuple<std::uintptr_t, std::uint64_t, std::uintptr_t>>;

  [[nodiscard]] static int size_of(const range& of) noexcept {
    return static_cast<int>(std::bit_width(of.end - of.begin)) - 1;
  }

  std::array<std::map<int, all_of_size>, 2> ranges_;  // those that are read, and written
};

}  // namespace sluice::operations
