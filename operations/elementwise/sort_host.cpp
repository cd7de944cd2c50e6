// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/sort_functions.hpp"
#include "runtime/seam.hpp"

#include <hwy/contrib/sort/vqsort.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::host {
namespace {

using operations::narrow_item;
using operations::sort_addresses;
using operations::sort_call;
using operations::wide_item;

void sort_items(const hwy::Sorter& sorter, std::vector<narrow_item>& items) {
  static_assert(sizeof(narrow_item) == sizeof(std::uint64_t));
  sorter(reinterpret_cast<std::uint64_t*>(items.data()), items.size(), hwy::SortAscending());
}
void sort_items(const hwy::Sorter& sorter, std::vector<wide_item>& items) {
  static_assert(sizeof(wide_item) == sizeof(hwy::uint128_t) &&
                offsetof(wide_item, key) == offsetof(hwy::uint128_t, hi));
  sorter(reinterpret_cast<hwy::uint128_t*>(items.data()), items.size(), hwy::SortAscending());
}

template <class Item>
void sort_rows(const sort_call& call, const sort_addresses& addresses, std::int64_t begin,
               std::int64_t end) {
  // Few elements are found faster than all are sorted. Memory is needed for those that are kept and
  // a block of others: no more than a small multiple of the results or of a block.
  const bool selects = call.kept < call.length / 4;
  const auto block = selects ? std::max<std::int64_t>(call.kept, 1 << 16) : call.length;
  const hwy::Sorter sorter;
  std::vector<Item> items;
  items.reserve(static_cast<std::size_t>(std::min(call.kept + block, call.length)));
  for (auto row = begin; row < end; ++row) {
    const auto position = operations::position_of(call.rows, row);
    items.clear();
    for (std::int64_t first = 0; first < call.length; first += block) {
      const auto last = std::min(first + block, call.length);
      for (auto i = first; i < last; ++i) {
        const auto order = operations::order_of(call.type(), addresses.x,
                                                position.offsets[2] + i * call.strides[2]);
        items.push_back(Item::make(order, i, call.descending));
      }
      const auto kept = static_cast<std::ptrdiff_t>(call.kept);
      if (!selects || kept >= static_cast<std::ptrdiff_t>(items.size())) continue;
      std::nth_element(items.begin(), items.begin() + kept, items.end());
      items.erase(items.begin() + kept, items.end());
    }
    // The vectors take longer to set up than a few elements to sort.
    constexpr std::size_t few = 16;
    if (items.size() > few) {
      sort_items(sorter, items);
    } else {
      std::sort(items.begin(), items.end());
    }
    for (std::int64_t i = 0; i < call.kept; ++i) {
      operations::put_sorted(call, addresses, position, i,
                             items[static_cast<std::size_t>(i)].index());
    }
  }
}

}  // namespace

void compute_sort(const sort_call& call, const sort_addresses& addresses) {
  constexpr double nanoseconds_of_element = 10;
  const work_chunks chunks(call.rows.count,
                           nanoseconds_of_element * static_cast<double>(call.length));
  parallel_for(chunks.count(), [&](std::int64_t i) {
    const auto [begin, end] = chunks[i];
    if (call.is_narrow()) {
      sort_rows<narrow_item>(call, addresses, begin, end);
    } else {
      sort_rows<wide_item>(call, addresses, begin, end);
    }
  });
}

}  // namespace sluice::host
